#pragma once

#include <signal.h>

#include <chrono>
#include <vector>

namespace levin {

/// Receives the signals that a launcher passes on, and SIGCHLD, as a list to read, as long as it lives. Signals that were
/// ignored stay ignored (nohup). One at a time in a process.
class SignalPipe {
 public:
  /// Throws IoError.
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// Waits for signals, at most `limit`. SIGCHLD ends the wait and is not in the list.
  std::vector<int> wait(std::chrono::milliseconds limit);

 private:
  struct Taken {
    int signal;
    struct sigaction before;
  };
  int read_end_ = -1;
  std::vector<Taken> taken_;
};

}  // namespace levin
