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
  Value log_model = false;                             ///< true: upload checkpoints in the end; all: whenever one is saved
  std::string prefix = {};                             ///< "fold1" makes fold1-val_loss of val_loss
  std::filesystem::path core = {};                     ///< wandb-core; empty: WANDB_CORE, else that which is installed
  bool per_rank = false;                               ///< every rank's own values are a run beside
  std::int64_t every_n_steps = 50;                     ///< per_rank: step values after so many steps
  double end_timeout = 30;                             ///< how long the run's end waits for W&B without any progress, seconds

  static void declare(OptionList<WandbLoggerOptions>& options);
};

/// Logs to Weights & Biases: metrics with levin's step as their x axis (`trainer/global_step`), hyper-parameters, images,
/// figures, histograms, texts, tables and files.
///
/// With `offline`, or WANDB_MODE=offline, it writes a folder `save_dir/wandb/offline-run-DATE-ID` that `wandb sync` uploads.
/// Otherwise it speaks to the program wandb-core, where that and an API key are there, which uploads while the run is on; where
/// they are not, it says so, and the run is offline. The folder is whole in any case, and what W&B has not taken by the end
/// (end_timeout, a signal) `wandb sync` uploads. WANDB_MODE=disabled: nothing is written.
///
/// The run's id is kept in `wandb_run.txt` of its version folder: that of a logger that stands before it, or else
/// `save_dir/project/id`. A run that resumes from a checkpoint beside it goes on under this id; what the earlier part has
/// logged is not logged again.
///
/// What other ranks than 0 log (images and the like, and with per_rank their unreduced values) is a run of its own in the same
/// group, `NAME-rank_1`, of the job type "rank".
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
  /// Of this rank's own values.
  wandb::Run& own_run();

  Options options_;
  std::filesystem::path folder_;  ///< where the id is kept
  std::string id_;                ///< empty: nothing is logged
  bool resumes_ = false;          ///< this run has an earlier part
  RunInfo run_;
  std::unique_ptr<wandb::Run> main_run_;  ///< rank 0 only
  mutable std::mutex own_run_mutex_;
  std::unique_ptr<wandb::Run> own_run_;  ///< made when first asked for
  std::set<std::filesystem::path> checkpoints_;
};

}  // namespace levin
