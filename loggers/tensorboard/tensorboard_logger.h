#pragma once

#include <cstdint>
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

class MediaFolder;
struct VersionFolder;
namespace tensorboard {
class EventFile;
}

struct LEVIN_API TensorBoardLoggerOptions {
  std::optional<std::filesystem::path> save_dir = {};  ///< default: the Trainer's default_root_dir
  std::string name = "logs";                           ///< folder below save_dir; empty: none
  Value version = {};                                  ///< null: the next free number; 3: version_3; a text: that very folder
  bool per_rank = false;                               ///< each rank's values are a separate run, rank_{rank}
  std::int64_t every_n_steps = 50;                     ///< per_rank: step values after so many steps
  double flush_secs = 10;                              ///< seconds of values that a kill loses at most

  static void declare(OptionList<TensorBoardLoggerOptions>& options);
};

/// Writes files for TensorBoard to `save_dir/name/version_N`: metrics, images, histograms, texts, tables (as texts), and
/// hyper-parameters with the metrics to compare runs by. Files that a module logs, which TensorBoard does not show, are in
/// `media/files` there. `tensorboard --logdir save_dir` shows them.
///
/// It shares the folder of a CSVLogger of the same experiment that is listed before it. Other ranks log their items, and with
/// per_rank their unreduced values, to a separate run, in the subfolder `rank_{rank}`.
///
/// A run that resumes from a checkpoint continues from there: later events are removed from the files, and an event makes
/// TensorBoard drop those that it has read. A new version folder gets the earlier files, too.
class LEVIN_API TensorBoardLogger final : public Logger {
 public:
  using Options = TensorBoardLoggerOptions;

  /// Throws: ConfigError when an option has no meaning.
  explicit TensorBoardLogger(Options options = {});
  ~TensorBoardLogger() override;
  Value settings() const override { return write_options(options_); }

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
  void finalize(const std::string& status) override;

  std::string name() const override { return options_.name; }
  std::string version() const override;
  std::filesystem::path log_dir() const override { return folder_; }

 private:
  using EventFile = tensorboard::EventFile;
  VersionFolder version_folder(const std::filesystem::path& default_root_dir) const;
  /// Creates the file of the run in the subfolder `below`. If the run resumes, events after its checkpoint are removed from the
  /// earlier files. `known`: the rows that the checkpoint knows; `rows`: set to the number that stay.
  std::unique_ptr<EventFile> begin_file(const std::filesystem::path& below, std::int64_t known, std::int64_t& rows) const;
  /// The file of this rank's separate run.
  EventFile& own_file();

  Options options_;
  std::filesystem::path folder_;
  RunInfo run_;
  RowCounts rows_{0, 0};
  std::unique_ptr<EventFile> file_;  ///< rank 0 only
  std::mutex own_file_mutex_;
  std::unique_ptr<EventFile> own_file_;  ///< created on first use
  std::unique_ptr<MediaFolder> media_;   ///< for the thread that calls log_item()
  Value hyperparams_ = Value(Value::Map{});
  std::set<std::string> metrics_;  ///< names of all that were logged
};

}  // namespace levin
