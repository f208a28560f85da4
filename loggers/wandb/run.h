#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/worker.h"
#include "levin/core/logged_item.h"
#include "levin/core/protocol/metrics.h"
#include "levin/loggers/media_folder.h"
#include "levin/loggers/wall_clock.h"
#include "levin/loggers/wandb/core_connection.h"
#include "levin/loggers/wandb/record_file.h"
#include "levin/loggers/wandb/records.h"

namespace levin::wandb {

/// What the earlier parts of a resumed run have written.
struct EarlierRows {
  std::vector<std::int64_t> steps = {};                            ///< of rows of metrics
  std::map<std::pair<std::string, std::int64_t>, int> items = {};  ///< how many items, by name and step
  std::int64_t rows = 0;                                           ///< the next number of a row
  std::map<std::string, std::string> summary = {};                 ///< the newest values, as JSON
  double runtime = 0;                                              ///< seconds
};

/// `wandb`: the folder with `run-DATE-ID` and `offline-run-DATE-ID`. Damaged records are left out.
EarlierRows read_earlier(const std::filesystem::path& wandb, const std::string& id);

/// A run of W&B: its folder, with the run file that `wandb sync` uploads, and the connection to wandb-core, unless it is
/// offline. The file has everything, also if the connection fails.
///
/// Threading: any. A worker writes and sends records.
class Run {
 public:
  struct Start {
    RunIdentity identity;
    std::filesystem::path wandb;      ///< the run's folder is created in it
    std::filesystem::path core = {};  ///< wandb-core; empty: the run is offline
    bool resumes = false;             ///< there may be an earlier part
    /// Whether rows of metrics of the earlier part are logged again, and from which on: they are not sent again. The number of
    /// the first; -1: those of first_step and later ones.
    bool logs_again = false;
    std::int64_t first_row = -1;
    std::int64_t first_step = 0;
  };

  /// Creates the folder, and starts the run. If wandb-core or W&B is unavailable, warns, and the run is offline. Throws
  /// IoError.
  explicit Run(Start start);
  /// Does not end the run for W&B: finish() does.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// How many rows of metrics were logged, with those of earlier parts.
  std::int64_t rows() const;
  /// Nothing was logged, and W&B does not know the run.
  bool is_unused() const { return next_row_ == earlier_.rows && !core_; }

  void log(const MetricRow& row, const std::string& prefix);
  void log(const LoggedItem& item);
  void log_config(const Value& hyperparams);
  void log_summary(const Fields& fields);
  /// Uploads a file, under this name among the run's files.
  void log_file(const std::filesystem::path& file, const std::string& name);
  /// Waits until all that was logged is in the run file. Throws IoError.
  void save();
  /// Ends the run for W&B, and waits until wandb-core has uploaded everything, but no longer than this without progress.
  void finish(int exit_code, std::chrono::duration<double> patience);
  /// Removes the folder of a run that is_unused().
  void discard();

 private:
  void connect(const Start& start);
  void move_offline();
  void add(Record record);
  void add_row(Fields fields, std::int64_t step);
  void write_added();
  void warn_of_core();
  double runtime() const;

  const std::string id_;
  const double start_time_ = seconds_now();
  EarlierRows earlier_;
  std::filesystem::path folder_;
  std::unique_ptr<CoreConnection> core_;
  bool warned_of_core_ = false;
  std::optional<RecordFile> file_;
  std::int64_t record_ = 0;  ///< the number of the last one

  std::mutex log_mutex_;
  MediaFolder media_;  ///< in `files`; this and the next are guarded by log_mutex_
  std::set<std::string> defined_;
  std::int64_t next_row_ = 0;
  std::int64_t metric_rows_ = 0;
  std::int64_t skipped_until_ = 0;  ///< rows of metrics with lower numbers are not sent again

  std::mutex mutex_;
  std::deque<Record> added_;  ///< those that wait; the first of them may be under way
  Worker worker_;             ///< writes them
};

}  // namespace levin::wandb
