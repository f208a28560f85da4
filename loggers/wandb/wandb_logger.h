#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/core/config/options.h"
#include "levin/core/logger.h"

namespace levin {
namespace wandb {
class Run;
struct RunIdentity;
}  // namespace wandb

struct LEVIN_API WandbLoggerOptions {
  std::string project = {};  ///< empty: WANDB_PROJECT, else levin_logs
  std::string name = {};     ///< empty: WANDB_NAME, else one that W&B chooses
  std::string entity = {};   ///< user or team; empty: WANDB_ENTITY, else the user's default
  std::string group = {};    ///< empty: WANDB_RUN_GROUP
  std::string job_type = {};
  std::string notes = {};
  std::vector<std::string> tags = {};                  ///< none: WANDB_TAGS, with commas between them
  std::string id = {};                                 ///< empty: WANDB_RUN_ID, else that of the run that resumes, or a new one
  std::optional<std::filesystem::path> save_dir = {};  ///< default: WANDB_DIR, else the Trainer's default_root_dir
  bool offline = false;                                ///< true: only files, for `wandb sync`
  Value log_model = false;                             ///< true: upload checkpoints at the end; all: each when it is saved
  std::string prefix = {};                             ///< "fold1" makes fold1-val_loss of val_loss
  std::filesystem::path core = {};                     ///< wandb-core; empty: WANDB_CORE, else that which is installed
  bool per_rank = false;                               ///< each rank's own values are another run
  std::int64_t every_n_steps = 50;                     ///< per_rank: step values after so many steps
  double end_timeout = 30;                             ///< seconds for which the run's end waits for W&B without progress

  static void declare(OptionList<WandbLoggerOptions>& options);
};

/// Logs to Weights & Biases: metrics with levin's step as their x axis (`trainer/global_step`), hyper-parameters, images,
/// figures, histograms, texts, tables and files.
///
/// With `offline`, or WANDB_MODE=offline, it writes a folder `save_dir/wandb/offline-run-DATE-ID` that `wandb sync` uploads.
/// Otherwise the program wandb-core uploads during the run. Without it, or without an API key, a warning says so, and the run
/// is offline. The folder is complete in any case: `wandb sync` uploads what W&B lacks at the end (end_timeout, a signal).
/// WANDB_MODE=disabled: nothing is written.
///
/// The run's id is in `wandb_run.txt` of its version folder, which is that of a logger listed before it, or else
/// `save_dir/project/id`. A run that resumes from a checkpoint of that folder continues under this id, and logs nothing twice.
///
/// Other ranks log their items, and with per_rank their unreduced values, to a separate run in the same group, `NAME-rank_1`,
/// of the job type "rank".
class LEVIN_API WandbLogger final : public Logger {
 public:
  using Options = WandbLoggerOptions;

  /// Throws: ConfigError when an option has no meaning.
  explicit WandbLogger(Options options = {});
  ~WandbLogger() override;
  Value settings() const override { return write_options(options_); }

  std::vector<std::filesystem::path> earlier_runs(const RunInfo& run) const override;
  std::string open(const RunInfo& run) override;
  void attach(const RunInfo& run, const std::string& token) override;
  void log_metrics(const MetricRow& row) override;
  bool wants_rank_metrics() const override { return options_.per_rank; }
  void log_rank_metrics(const MetricRow& row) override;
  bool log_item(const LoggedItem& item) override;
  void log_hyperparams(const Value& hyperparams) override;
  void after_save_checkpoint(const std::filesystem::path& file) override;
  RowCounts rows_written() const override;
  void save() override;
  void log_outcome(const RunOutcome& outcome) override;
  void finalize(const std::string& status) override;

  std::string name() const override;
  std::string version() const override { return id_; }
  std::filesystem::path log_dir() const override { return folder_; }

 private:
  std::filesystem::path save_dir(const RunInfo& run) const;
  bool is_disabled() const { return id_.empty(); }
  std::unique_ptr<wandb::Run> begin_run(wandb::RunIdentity identity, std::int64_t known_rows) const;
  /// The separate run of this rank.
  wandb::Run& own_run();

  Options options_;
  std::filesystem::path folder_;  ///< with wandb_run.txt
  std::string id_;                ///< empty: logging is disabled
  bool resumes_ = false;          ///< this run has an earlier part
  RunInfo run_;
  std::unique_ptr<wandb::Run> main_run_;  ///< rank 0 only
  mutable std::mutex own_run_mutex_;
  std::unique_ptr<wandb::Run> own_run_;  ///< created on first use
  std::set<std::filesystem::path> checkpoints_;
};

}  // namespace levin
