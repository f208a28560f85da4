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

/// A journal, and a thread that sends it while it grows: what was logged within a second together, and while the server does
/// not take it, after growing pauses. Rank 0 tells when that begins and ends. Threading: for the threads that log.
class UploadQueue {
 public:
  /// `uri`: that of the server, with what it needs to know who asks. Throws IoError as Journal and MlflowServer do.
  UploadQueue(const std::filesystem::path& file, const Value& header, const std::string& uri);
  /// Gives up what is under way.
  ~UploadQueue();
  UploadQueue(const UploadQueue&) = delete;
  UploadQueue& operator=(const UploadQueue&) = delete;

  /// Adds an entry to the journal. Throws IoError where that cannot be written.
  void add(const Value& entry);
  /// Sends the rest, but waits no longer than this without any progress, or once a signal comes. Gives what is left, in words;
  /// "" nothing.
  std::string finish(std::chrono::duration<double> patience);

 private:
  void work();
  /// Waits until there is something to do; false: the thread is to end.
  bool wait_for_work();
  /// Sends all there is. Throws IoError.
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
  std::chrono::duration<double> pause_;  ///< before the next try
  bool is_away_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_work_ = false;
  bool stops_ = false;
  std::optional<Patience> finishes_;  ///< from finish() on
  std::int64_t most_bytes_ = 0;       ///< that a try of the request under way has come to
  std::thread thread_;
};

}  // namespace levin::mlflow
