#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "levin/strategies/failure/failure.h"
#include "levin/strategies/host/status_board.h"

namespace levin {

/// The limits of waits for other ranks.
struct Timeouts {
  double stall_report_seconds = 60;  ///< then one rank's watch prints where all are
  double timeout_seconds = 1800;     ///< then the run ends with that table as its error
};

/// A thread that ends this process when another rank has failed and this one does not notice by itself: inside a gradient
/// reduction, which cannot be interrupted, or in an endless loop of user code. Before that the rank gets a short grace, in
/// which its waits throw DesyncError and its own clean-up runs. It also prints where all ranks are when this one waits for
/// long, ends a gradient reduction that does not end, and reports, where the launcher is stopped, a rank whose process has
/// ended.
class FailureWatch {
 public:
  struct Settings {
    std::chrono::milliseconds grace{2000};                 ///< after the failure of another rank
    std::chrono::milliseconds own_grace{4000};             ///< after this rank's own failure
    std::chrono::milliseconds saving_grace{kSavingGrace};  ///< then, while the rank saves what it can
    Timeouts timeouts{};  ///< the timeout is of gradient reductions; other waits have their own
    /// Receives the table of where all ranks are.
    std::function<void(const std::string& report)> print = print_report;
    /// Ends the process, and reports the reason, if any.
    std::function<void(const std::string& reason)> end_process = [](const std::string& reason) {
      if (!reason.empty()) print_report(reason);
      _exit(1);
    };
  };

  FailureWatch(std::shared_ptr<StatusBoard> board, Settings settings);
  /// Stops watching.
  ~FailureWatch();

 private:
  void run();
  void check_wait();
  /// The last message before this process is ended because of another rank's failure.
  std::string last_word_on(const FailureRecord& failure);
  /// Gives this rank time to save what it can. True when the watch was stopped meanwhile.
  bool stopped_while_saving();
  /// True when the watch was stopped during it.
  bool stopped_within(std::chrono::milliseconds time);

  std::shared_ptr<StatusBoard> board_;
  Settings settings_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace levin
