#pragma once

#include <signal.h>

#include <ctime>
#include <initializer_list>

namespace levin::cli {

/// While one lives, these signals do not end the process, but are waited for. A child that is to be ended by them unblocks them
/// first. Threading: the main thread, before there are others.
class AwaitedSignals {
 public:
  AwaitedSignals(std::initializer_list<int> signals) {
    sigemptyset(&signals_);
    for (const int signal : signals) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~AwaitedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;

  /// Waits for the next of them.
  int wait() const {
    int signal = 0;
    sigwait(&signals_, &signal);
    return signal;
  }
  /// True when one came before so many seconds were over.
  bool come_within(std::time_t seconds) const {
    const timespec time{seconds, 0};
    return sigtimedwait(&signals_, nullptr, &time) > 0;
  }

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

}  // namespace levin::cli
