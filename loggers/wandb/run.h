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

/// What a run has written before it goes on, in all its folders.
struct EarlierRows {
  std::vector<std::int64_t> steps = {};                            ///< of the rows of metrics
  std::map<std::pair<std::string, std::int64_t>, int> items = {};  ///< how often something was shown, by name and step
  std::int64_t rows = 0;                                           ///< one more than the greatest number
  std::map<std::string, std::string> summary = {};                 ///< the newest values, as JSON
  double runtime = 0;                                              ///< seconds
};

/// `wandb`: the folder with those of runs, `run-DATE-ID` and `offline-run-DATE-ID`. What is damaged is left out.
EarlierRows read_earlier(const std::filesystem::path& wandb, const std::string& id);

/// A run as W&B knows it: its folder, with the run file that `wandb sync` uploads, and the connection to wandb-core, where
/// there is one. The file has everything, whatever becomes of the connection.
///
/// Threading: any. Records are written and sent by a thread of the run's own.
class Run {
 public:
  struct Start {
    RunIdentity identity;
    std::filesystem::path wandb;      ///< the folder in which that of the run is made
    std::filesystem::path core = {};  ///< wandb-core; empty: the run is offline
    bool resumes = false;             ///< there may be an earlier part
    /// Whether rows of metrics that the earlier part has are logged anew, and from which on: they are not sent again. By
    /// number, or, -1, those of this step and later ones.
    bool logs_again = false;
    std::int64_t first_row = -1;
    std::int64_t first_step = 0;
  };

  /// Makes the folder, and begins. Where wandb-core or W&B is not to be had, warns, and the run is offline. Throws IoError.
  explicit Run(Start start);
  /// Does not end the run for W&B: what finish() does.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// How many rows of metrics were logged, the earlier part's included.
  std::int64_t rows() const;
  /// Nothing was logged, and nobody has heard of the run.
  bool is_unused() const { return next_row_ == earlier_.rows && !core_; }

  void log(const MetricRow& row, const std::string& prefix);
  void log(const LoggedItem& item);
  void log_config(const Value& hyperparams);
  void log_summary(const Fields& fields);
  /// Uploads a file that lies somewhere as `name` of the run's files.
  void log_file(const std::filesystem::path& file, const std::string& name);
  /// Waits until all that was logged is in the run file. Throws IoError.
  void save();
  /// Ends the run for W&B, and waits until wandb-core has uploaded everything, but no longer than this without any progress.
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
