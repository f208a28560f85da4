#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "levin/core/base/patience.h"
#include "levin/loggers/mlflow/journal.h"
#include "levin/loggers/mlflow/mlflow_server.h"
#include "levin/loggers/mlflow/upload.h"

namespace levin::mlflow {

/// A journal, and a thread that sends its entries: those of a second together and, while the server does not respond, after
/// growing pauses. Rank 0 reports when the server goes away and comes back. Threading: for the threads that log.
class UploadQueue {
 public:
  /// `uri`: of the server, with credentials. Throws IoError as Journal and MlflowServer do.
  UploadQueue(const std::filesystem::path& file, const Value& header, const std::string& uri);
  /// Cancels the request under way.
  ~UploadQueue();
  UploadQueue(const UploadQueue&) = delete;
  UploadQueue& operator=(const UploadQueue&) = delete;

  /// Adds an entry to the journal. Throws IoError if that cannot be written.
  void add(const Value& entry);
  /// Sends the rest, but waits no longer than this without progress, and not after a signal. Returns what is left, for
  /// messages; "": nothing.
  std::string finish(std::chrono::duration<double> patience);

 private:
  void work();
  /// Waits for entries; false: the thread must end.
  bool wait_for_work();
  /// Sends all entries. Throws IoError.
  void send();
  bool finishes();
  bool may_continue(std::int64_t bytes);
  void note_failure(const std::string& reason);
  void note_success();
  void wake();

  MlflowServer server_;
  Journal journal_;
  Upload upload_;
  const bool reports_;
  std::chrono::duration<double> pause_;  ///< before the next retry
  bool is_away_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_work_ = false;
  bool stops_ = false;
  std::optional<Patience> finishes_;  ///< from finish() on
  std::int64_t most_bytes_ = 0;       ///< that a try of the request under way has transferred
  std::thread thread_;
};

}  // namespace levin::mlflow
