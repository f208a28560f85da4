#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/option_type.h"

namespace levin {

class SharedInterval;
class TopKCheckpoints;

/// Whether there is a `last.ckpt`: none (false), a separate file (true), or a symbolic link to the newest file (kLink;
/// "link" in YAML).
class LEVIN_API SaveLast {
 public:
  enum Link { kLink };
  SaveLast(bool enabled = false) : enabled_(enabled) {}
  SaveLast(Link) : enabled_(true), link_(true) {}
  bool enabled() const { return enabled_; }
  bool link() const { return link_; }

 private:
  bool enabled_ = false;
  bool link_ = false;
};

template <>
struct LEVIN_API OptionType<SaveLast> {
  static SaveLast read(const Value& value);
  static Value write(const SaveLast& save_last);
  static std::string name() { return "bool or \"link\""; }
  static Value schema();
};

/// Lightning's arguments and defaults.
struct LEVIN_API ModelCheckpointOptions {
  /// A folder, or an address as s3://BUCKET/runs/a, where files appear whole (remote_file.h). Default: `checkpoints` in the
  /// first logger's folder, or in default_root_dir when there is no logger.
  std::optional<std::filesystem::path> dirpath = std::nullopt;
  std::optional<std::string> filename = std::nullopt;  ///< "{epoch}-{val_loss:.2f}"; default "{epoch}-{step}"
  std::optional<std::string> monitor = std::nullopt;   ///< "step" and "epoch" exist without being logged
  bool verbose = false;
  SaveLast save_last = false;
  std::int64_t save_top_k = 1;  ///< -1: all, 0: none
  /// Rank 0 also saves when training ends with an error; other ranks take no part in it. Unset: only when a signal has
  /// ended it, which all ranks have agreed on, and the callback saves checkpoints at all; of several callbacks the first one
  /// saves then.
  std::optional<bool> save_on_exception = std::nullopt;
  bool save_weights_only = false;
  MonitorMode mode = MonitorMode::kMin;
  bool auto_insert_metric_name = true;
  // At most one of these three; none: every epoch.
  std::optional<std::int64_t> every_n_train_steps = std::nullopt;  ///< optimizer steps
  std::optional<Duration> train_time_interval = std::nullopt;      ///< by rank 0's clock
  std::optional<std::int64_t> every_n_epochs = std::nullopt;
  /// true: save when the training epoch ends; false: when validation ends; unset: the former when every epoch validates once.
  std::optional<bool> save_on_train_epoch_end = std::nullopt;
  bool enable_version_counter = true;  ///< false: a file of the same name is replaced
  /// The step waits for a copy of the state, and a thread writes it; false: the step waits until the file is on disk.
  bool async = true;

  static void declare(OptionList<ModelCheckpointOptions>& options);
};

/// Saves checkpoints while training: the k best by a metric, or the newest, and `last.ckpt` if asked to.
///
/// What to save is decided on values that all ranks share, and rank 0 alone reads the folder and names the file, so ranks
/// cannot disagree. What is due after a training step is saved at once. When its monitor comes from validation, it has no score
/// yet, and is ranked with the value of the next one: the newest first, as the nearest to what was measured. Of those that wait
/// for a score the newest save_top_k stay, also when training ends before there is any. It removes only files that it
/// has written.
class LEVIN_API ModelCheckpoint final : public WithOptions<Callback, ModelCheckpointOptions> {
 public:
  static constexpr const char* kFileExtension = ".ckpt";
  static constexpr const char* kNameLast = "last";

  /// Throws ConfigError as checked() does.
  explicit ModelCheckpoint(Options options = {});
  ModelCheckpoint(ModelCheckpoint&& other) noexcept;
  ~ModelCheckpoint() override;

  /// The folder, once training has been set up.
  const std::string& dirpath() const { return state_.dirpath; }
  /// Paths are empty, and scores unset, before the first save. All ranks give the same.
  const std::string& best_model_path() const { return state_.best_model_path; }
  std::optional<double> best_model_score() const { return state_.best_model_score; }
  const std::string& last_model_path() const { return state_.last_model_path; }
  std::optional<double> current_score() const { return state_.current_score; }
  /// When it saves next, as text: "in 54 steps", "after this epoch"; empty: never, or not known.
  std::string next_save(const Trainer& trainer) const;
  /// What was written last; empty: nothing yet.
  const std::string& last_saved() const { return newest_file_.empty() ? state_.saved_as : newest_file_; }
  std::string kth_best_model_path() const;
  double kth_value() const;
  /// The k best files and their scores, oldest first. Empty without a monitor.
  const std::vector<std::pair<std::string, double>>& best_k_models() const;

  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  std::string state_key() const override;
  std::string checkpoint_folder() const override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_validation_start(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_fit_end(Trainer& trainer, Module& module) override;
  void on_exception(Trainer& trainer, Module& module, const std::exception& error) override;

 private:
  enum class Occasion { kBatch, kEpoch };
  /// What a run that resumes from here needs. Steps are optimizer steps; -1: never.
  struct Decisions {
    std::int64_t top_k_step = -1;         ///< the newest at which the k best were updated
    std::int64_t last_saved_step = -1;    ///< that of last.ckpt
    std::int64_t triggered_step = -1;     ///< the newest that was due
    std::int64_t validated_step = -1;     ///< the newest that was validated
    bool waits_for_validation = false;    ///< an epoch's save, since its monitor was measured in an earlier one
    bool measured_in_validation = false;  ///< the monitor's value comes from validation
    bool validation_has_run = false;
    std::optional<double> score_before_validation;
    std::string exceptional_file;       ///< written when a run ended early; the next save of its name replaces it
    std::vector<std::string> unscored;  ///< written without a score, oldest first
    std::vector<std::string> evicted;   ///< to be removed once their successors exist
  };
  /// What a checkpoint has besides these and the k best, under Lightning's names, where it has them.
  struct State {
    std::string best_model_path;
    std::optional<double> best_model_score;
    std::optional<double> current_score;
    std::string dirpath;
    std::string last_model_path;
    std::string saved_as;  ///< what was written last, which a run that resumes from it must not remove
  };

  bool off(const Trainer& trainer) const;
  /// What is monitored: a logged value, or the Trainer's step or epoch. `now`: between the boundaries at which logged values
  /// are the same on all ranks. Ranks: all, if `now`.
  std::optional<double> score(Trainer& trainer, bool now = false) const;
  bool saves_after(const Trainer& trainer, const std::exception& error) const;
  bool step_is_due(Trainer& trainer);
  bool every_epoch_trigger() const { return every_n_train_steps_ == 0 && !interval_; }
  void epoch_ended(Trainer& trainer);

  void save(Trainer& trainer, Occasion occasion);
  void save_best(Trainer& trainer, Occasion occasion);
  void save_monitored(Trainer& trainer, double score);
  /// Saves without a score.
  void save_unscored(Trainer& trainer);
  /// Gives this score to what was saved without one.
  void score_saved(Trainer& trainer, double score);
  void add_ranked(const Trainer& trainer, const std::string& file, double score);
  void save_newest(Trainer& trainer);
  /// Also removes the files that new ones have evicted.
  void save_last(Trainer& trainer);
  void write_last(Trainer& trainer, const std::string& file);
  void write(Trainer& trainer, const std::string& file);
  void report_missing_monitor(Trainer& trainer);

  std::string choose_file(Trainer& trainer, const std::string& name, const std::string& may_replace) const;
  std::string free_file(Trainer& trainer, const std::string& name, const std::string& may_replace) const;
  std::string current_name(const Trainer& trainer) const;
  void remove_evicted(Trainer& trainer);
  /// Ranks: all. The run before may have been killed between the files of one point, all of which say that all are written.
  void save_what_is_missing(Trainer& trainer);
  void publish_aliases(Trainer& trainer);

  std::unique_ptr<TopKCheckpoints> top_k_;
  std::int64_t every_n_train_steps_ = 0;
  std::int64_t every_n_epochs_ = 0;
  std::unique_ptr<SharedInterval> interval_;

  State state_;
  std::string newest_file_;             ///< what was written last, except last.ckpt: what last.ckpt links to
  std::int64_t newest_file_step_ = -1;  ///< the step of that; -1: there is none
  std::string resumed_file_;            ///< what this run resumes from
  Decisions decisions_;
  bool resumed_ = false;  ///< the decisions are those of the run that this one resumes
};

}  // namespace levin
