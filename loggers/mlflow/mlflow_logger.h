#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/config/options.h"
#include "levin/core/logger.h"

namespace levin {

class MediaFolder;
struct VersionFolder;
namespace mlflow {
class EarlierJournal;
class UploadQueue;
}  // namespace mlflow

/// Lightning's arguments, where it has them. `name` and `version` are of the folder.
struct LEVIN_API MLflowLoggerOptions {
  std::string experiment_name = "lightning_logs";  ///< Lightning's default
  std::optional<std::string> run_name = {};        ///< null: MLflow makes one up
  std::optional<std::string> tracking_uri = {};    ///< null: the environment's MLFLOW_TRACKING_URI
  std::map<std::string, std::string> tags = {};    ///< of the run
  Value log_model = false;                         ///< true: checkpoints that remain at the end; "all": each when it is saved
  std::string prefix = {};                         ///< "fold1" makes fold1-val_loss of val_loss
  std::optional<std::string> artifact_location = {};   ///< of the experiment, where it is made; null: the server's choice
  std::optional<std::string> run_id = {};              ///< continue this run of the server
  std::optional<std::filesystem::path> save_dir = {};  ///< default: the Trainer's default_root_dir
  std::string name = "logs";                           ///< folder below save_dir; empty: none
  Value version = {};                                  ///< null: the next free number; 3: version_3; a text: that very folder
  bool per_rank = false;                               ///< each rank's own values too, as val_loss/rank_0, val_loss/rank_1
  std::int64_t every_n_steps = 50;                     ///< per_rank: step values after so many steps
  double end_timeout = 30;  ///< seconds for which the run's end waits for a server that does not respond

  static void declare(OptionList<MLflowLoggerOptions>& options);
};

/// Sends what a run logs to an MLflow server, over its REST API: metrics, hyper-parameters as parameters, images, figures,
/// histograms, texts, tables and files as artifacts, checkpoints with log_model, and how the run ended.
///
/// No step waits for the server, and nothing is lost if it does not respond: values are appended to a journal in `mlflow` of
/// the version folder, and a thread sends them. While the server does not respond, even at the start, the journal grows. `levin
/// runs sync` sends what the server lacks after the run's end or a kill. The folder is shared with a CSVLogger that is listed
/// before.
///
/// A run that resumes from a checkpoint continues the same run of MLflow. Values after the checkpoint are dropped if they were
/// not sent; if they were, MLflow has them for good, and equal values are not sent again.
///
/// All ranks log to one run. libcurl is loaded when the run begins; an IoError names the package where it is missing.
class LEVIN_API MLflowLogger final : public Logger {
 public:
  using Options = MLflowLoggerOptions;

  /// Throws: ConfigError when an option has no meaning, or there is no server to send to.
  explicit MLflowLogger(Options options = {});
  ~MLflowLogger() override;
  Value settings() const override { return write_options(options_); }

  /// Sends what the server lacks of the journals in a run's folder, and the status KILLED of a run whose process is gone.
  /// Returns a message that says what was sent. Throws IoError if the folder has no journal, a process has it open, or the
  /// server does not take everything.
  static std::string sync(const std::filesystem::path& run_folder);
  /// Whether sync() has something to read.
  static bool has_journal(const std::filesystem::path& run_folder);

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

  std::string name() const override { return options_.name; }
  std::string version() const override;
  std::filesystem::path log_dir() const override { return folder_; }

 private:
  VersionFolder version_folder(const RunInfo& run) const;
  /// The journal of this rank that a run continues; empty: none.
  std::filesystem::path earlier_journal(const RunInfo& run) const;
  mlflow::UploadQueue& queue();
  Value header() const;
  void add_row(const MetricRow& row, const char* count_name, std::int64_t count, const std::string& suffix);
  void add_file(const std::filesystem::path& file, const std::string& artifact, const char* mark = nullptr);
  /// `content`: the file itself, or a hard link to it, which is removed when it is sent.
  void add_checkpoint(const std::filesystem::path& file, const std::filesystem::path& content);

  Options options_;
  std::filesystem::path folder_;
  std::string key_;  ///< of the run: the server has it as a tag
  RunInfo run_;
  RowCounts rows_{0, 0};
  std::int64_t last_step_ = -1;
  std::int64_t last_time_ = 0;                       ///< of a row
  std::unique_ptr<mlflow::EarlierJournal> earlier_;  ///< of a resumed run
  std::vector<std::filesystem::path> checkpoints_;   ///< to be sent at the end
  RunOutcome outcome_;
  std::mutex mutex_;                            ///< of queue_, which is made on first use
  std::unique_ptr<mlflow::UploadQueue> queue_;  ///< null after the run's end
  std::unique_ptr<MediaFolder> media_;          ///< for the thread that calls log_item()
};

}  // namespace levin
