#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "levin/strategies/failure/status_board.h"

namespace levin {

/// A thread that ends this process when another rank has failed and this one does not notice by itself: inside a gradient
/// reduction, which cannot be interrupted, or in an endless loop of user code. Before that the rank gets a short grace, in
/// which its waits throw DesyncError and its own clean-up runs. It also prints where all ranks are when this one waits for
/// long, ends a gradient reduction that does not end, and reports, where the launcher is stopped, a rank whose process has
/// ended.
class FailureWatch {
 public:
  struct Settings {
    std::chrono::milliseconds grace{2000};      ///< after the failure of another rank
    std::chrono::milliseconds own_grace{4000};  ///< after this rank's own failure: it may be saving what it can
    Timeouts timeouts;                          ///< the timeout is of gradient reductions; other waits have their own
    /// Takes the table of where all ranks are. Default: stderr.
    std::function<void(const std::string& report)> print;
    /// Ends the process. Default: the reason, when there is one to tell, as a line on stderr; then _exit(1).
    std::function<void(const std::string& reason)> end_process;
  };

  FailureWatch(std::shared_ptr<StatusBoard> board, Settings settings);
  /// Stops watching.
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

 private:
  void run();
  void check_wait();
  /// What is left to say before this process is ended: for this rank's own failure, and for another rank's.
  std::string last_word_on_own(const FailureRecord& failure);
  std::string last_word_on(const FailureRecord& failure);
  /// True when the watch was stopped meanwhile.
  bool stopped_within(std::chrono::milliseconds time);

  std::shared_ptr<StatusBoard> board_;
  Settings settings_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace levin
