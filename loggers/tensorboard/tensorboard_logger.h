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
  bool per_rank = false;                               ///< every rank's own values are a run beside: rank_{rank}
  std::int64_t every_n_steps = 50;                     ///< per_rank: step values after so many steps
  double flush_secs = 10;                              ///< what a kill loses at most, seconds

  static void declare(OptionList<TensorBoardLoggerOptions>& options);
};

/// Writes what TensorBoard shows to `save_dir/name/version_N`: metrics, images, histograms, texts, tables (as texts), and
/// hyper-parameters with the metrics to compare runs by. Files that a module logs, which TensorBoard does not show, lie in
/// `media/files` there. Look at them with `tensorboard --logdir save_dir`.
///
/// It shares the folder of a CSVLogger of the same experiment that stands before it. What other ranks than 0 log (images and
/// the like, and with per_rank their unreduced values) is a run of its own, in the folder `rank_{rank}` of that one.
///
/// A run that resumes from a checkpoint goes on where that was saved: what was logged after it goes from the files of events,
/// and TensorBoard, which may have read it, is told to forget it. In a new version folder the earlier files come along.
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
  /// Begins the file of the run in the folder `below` this one's. Of a run that goes on, what was logged after its checkpoint
  /// goes from the files that are there. `known`: how many rows the checkpoint knows; `rows`: becomes the number that stay.
  std::unique_ptr<EventFile> begin_file(const std::filesystem::path& below, std::int64_t known, std::int64_t& rows) const;
  /// Of this rank's own run.
  EventFile& own_file();

  Options options_;
  std::filesystem::path folder_;
  RunInfo run_;
  RowCounts rows_{0, 0};
  std::unique_ptr<EventFile> file_;  ///< rank 0 only
  std::mutex own_file_mutex_;
  std::unique_ptr<EventFile> own_file_;  ///< made when first asked for
  std::unique_ptr<MediaFolder> media_;   ///< for the thread that calls log_item()
  Value hyperparams_ = Value(Value::Map{});
  std::set<std::string> metrics_;  ///< names of all that were logged
};

}  // namespace levin
