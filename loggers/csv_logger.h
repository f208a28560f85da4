#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/logger.h"

namespace levin {

class MediaFolder;
class MetricsFile;
struct VersionFolder;

struct LEVIN_API CsvLoggerOptions {
  std::optional<std::filesystem::path> save_dir = {};  ///< default: the Trainer's default_root_dir
  std::string name = "logs";                           ///< folder below save_dir; empty: none
  Value version = {};                                  ///< null: the next free number; 3: version_3; a text: that very folder
  std::string prefix = {};                             ///< "fold1" makes the column fold1-val_loss of val_loss
  std::int64_t flush_logs_every_n_steps = 100;         ///< rows are on the disk after so many steps
  bool per_rank = false;                               ///< each rank writes its values to metrics_rank_{rank}.csv, too
  std::int64_t every_n_steps = 50;                     ///< per_rank: a row of step values after so many steps

  static void declare(OptionList<CsvLoggerOptions>& options);
};

/// Writes metrics to `metrics.csv` in the folder `save_dir/name/version_N`, hyper-parameters to `hparams.yaml`, and the state
/// of the run to `run.json` (run_file.h).
///
/// metrics.csv has the columns `epoch`, `step` and one for each metric; a row without a value for a metric has an empty cell.
/// Floats are written so that they read back exactly. Rows reach the disk after flush_logs_every_n_steps steps, after a second
/// when steps are slow, and at the end of each epoch and of the run; the file can be read at any time.
///
/// With per_rank, `metrics_rank_{rank}.csv` has the unreduced values of one rank: those of every every_n_steps-th step and of
/// each epoch's end, evaluation included.
///
/// Images, histograms, texts, tables and files that a module logs are files in the subfolder `media` (media_folder.h).
///
/// A run that resumes from a checkpoint starts with the rows before that checkpoint, so that one file has the whole run: in a
/// version folder that is reused, later rows are dropped; in a new one, the earlier rows are copied from the checkpoint's
/// folder or, with several loggers, from this logger's folder of that run. A run that does not resume but reuses a version
/// folder renames the old file to `metrics.csv.bak-1` (2, 3, …), with a warning.
class LEVIN_API CsvLogger final : public Logger {
 public:
  using Options = CsvLoggerOptions;

  /// Throws: ConfigError when an option has no meaning.
  explicit CsvLogger(Options options = {});
  Value settings() const override { return write_options(options_); }
  CsvLogger(CsvLogger&& other) noexcept;
  ~CsvLogger() override;

  /// The existing version folders of this name, the highest number first; with a `version`, that one.
  std::vector<std::filesystem::path> earlier_runs(const RunInfo& run) const override;
  std::string open(const RunInfo& run) override;
  void attach(const RunInfo& run, const std::string& token) override;
  void log_metrics(const MetricRow& row) override;
  bool wants_rank_metrics() const override { return options_.per_rank; }
  void log_rank_metrics(const MetricRow& row) override;
  bool log_item(const LoggedItem& item) override;
  void log_hyperparams(const Value& hyperparams) override;
  RowCounts rows_written() const override;
  void save() override;
  void log_outcome(const RunOutcome& outcome) override { outcome_ = outcome; }
  void finalize(const std::string& status) override;

  std::string name() const override { return options_.name; }
  std::string version() const override { return version_; }
  std::filesystem::path log_dir() const override { return folder_; }

 private:
  VersionFolder version_folder(const RunInfo& run) const;
  void use_folder(const std::filesystem::path& folder);
  /// `rows`: how many rows of the earlier part to take; -1: those before RunInfo::resume_step.
  void prepare(std::unique_ptr<MetricsFile>& file, const std::string& file_name, const RunInfo& run, std::int64_t rows);
  void append(MetricsFile& file, const MetricRow& row);
  void flush();

  Options options_;
  std::filesystem::path folder_;
  std::string version_;
  std::unique_ptr<MetricsFile> metrics_;       // rank 0 only
  std::unique_ptr<MetricsFile> rank_metrics_;  // with per_rank
  std::unique_ptr<MediaFolder> media_;         // for the thread that calls log_item()
  Value hyperparams_ = Value(Value::Map{});
  RunOutcome outcome_;
  std::optional<std::chrono::steady_clock::time_point> noted_at_;  ///< metrics, in run.json
};

}  // namespace levin
