#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/checkpoint_name.h"
#include "levin/callbacks/model_checkpoint_options.h"
#include "levin/callbacks/top_k_checkpoints.h"
#include "levin/core/callback.h"
#include "levin/core/loops/shared_interval.h"

namespace levin {

/// Saves checkpoints while training: the k best by a metric, or the newest, and `last.ckpt` if asked to.
///
/// What to save is decided on values that all ranks share, and rank 0 alone looks at the folder and names the file, so ranks
/// cannot disagree. A score belongs to the step it was measured at: when a metric comes from validation, a save that falls
/// between two validations waits for the next one (`last.ckpt` does not wait: it is always the newest state). Only files of
/// this callback's own making are ever removed.
class ModelCheckpoint final : public Callback {
 public:
  using Options = ModelCheckpointOptions;

  static constexpr const char* kFileExtension = ".ckpt";
  static constexpr const char* kNameLast = "last";

  /// Throws ConfigError as checked() does.
  explicit ModelCheckpoint(ModelCheckpointOptions options = {});
  Value settings() const override { return write_options(options_); }

  const ModelCheckpointOptions& options() const { return options_; }
  /// The folder, once training has been set up.
  const std::string& dirpath() const { return dirpath_; }
  /// Paths are empty, and scores unset, while there is nothing to tell. All ranks give the same.
  const std::string& best_model_path() const { return best_model_path_; }
  std::optional<double> best_model_score() const { return best_model_score_; }
  const std::string& last_model_path() const { return last_model_path_; }
  std::optional<double> current_score() const { return current_score_; }
  const std::string& kth_best_model_path() const { return top_k_.kth_file(); }
  double kth_value() const { return top_k_.kth_value(); }
  /// Files and scores that are kept, oldest first. Empty without a monitor.
  const std::vector<std::pair<std::string, double>>& best_k_models() const { return top_k_.files(); }

  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  std::string state_key() const override;
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
  void on_exception(Trainer& trainer, Module& module, const std::exception& error) override;

 private:
  enum class Occasion { kBatch, kEpoch };

  bool off(const Trainer& trainer) const;
  bool step_is_due(Trainer& trainer);
  bool saves_on_train_epoch_end(const Trainer& trainer) const;
  bool every_epoch_trigger() const { return every_n_train_steps_ == 0 && !interval_; }
  void epoch_ended(Trainer& trainer);

  void save(Trainer& trainer, Occasion occasion);
  void save_best(Trainer& trainer, Occasion occasion);
  void save_monitored(Trainer& trainer, double score);
  void save_newest(Trainer& trainer);
  void save_last(Trainer& trainer);
  void write_last(Trainer& trainer, const std::string& file);
  /// What was decided at which step, for a run that goes on from here.
  Value decisions() const;
  void load_decisions(const Value& decisions);
  void write(Trainer& trainer, const std::string& file);
  std::optional<double> current_value(Trainer& trainer, Occasion occasion) const;
  void report_missing_monitor(Trainer& trainer);

  std::string choose_file(Trainer& trainer, const std::string& name, const std::string& may_replace) const;
  std::string free_file(const std::string& name, const std::string& may_replace) const;
  std::string current_name(const Trainer& trainer) const;
  void remove_displaced(const Trainer& trainer);
  void publish_aliases(Trainer& trainer);

  ModelCheckpointOptions options_;
  CheckpointName name_;
  TopKCheckpoints top_k_;
  std::int64_t every_n_train_steps_ = 0;
  std::int64_t every_n_epochs_ = 0;
  std::optional<SharedInterval> interval_;

  std::string dirpath_;
  std::string best_model_path_;
  std::optional<double> best_model_score_;
  std::optional<double> current_score_;
  std::string last_model_path_;
  std::string written_file_;            ///< what was written last
  std::string newest_file_;             ///< the same, last.ckpt aside: what last.ckpt links to
  std::string exceptional_file_;        ///< written when a run ended early; the next save of its name takes its place
  std::string resumed_file_;            ///< what this run goes on from; never removed
  std::vector<std::string> displaced_;  ///< to be removed once their successors are there

  // Optimizer steps; -1: never.
  std::int64_t decided_step_ = -1;      ///< the newest at which the k best were decided
  std::int64_t last_saved_step_ = -1;   ///< that of last.ckpt
  std::int64_t newest_file_step_ = -1;  ///< that of newest_file_
  std::int64_t triggered_step_ = -1;    ///< the newest that was due
  std::int64_t validated_step_ = -1;    ///< the newest that was validated
  bool waits_for_validation_ = false;
  bool measured_in_validation_ = false;  ///< the monitor's value comes from validation
  bool validation_has_run_ = false;
  std::optional<double> score_before_validation_;
  bool resumed_ = false;  ///< the steps above are those of the run that this one goes on from
};

}  // namespace levin
