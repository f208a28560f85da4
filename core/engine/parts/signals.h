#pragma once

#include <csignal>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace levin {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 are remembered instead of ending the process; a second SIGINT ends it at once.
/// A signal that the user ignores or handles on his own stays his. Scopes overlap, also those of several threads, and share
/// what they remember.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  /// The last signal received since the first of the scopes that live now; 0 for none.
  static int received();
};

/// Signals that one function handles as long as somebody asks for it. One that the program ignores (nohup) or handles itself
/// stays the program's; so does one for which it sets a handler of its own meanwhile. Threading: any.
class SignalHandlers {
 public:
  SignalHandlers(const std::vector<int>& signals, void (*handler)(int), int flags) : handler_(handler), flags_(flags) {
    for (const int signal : signals) taken_.push_back({signal, {}, false});
  }

  /// `first` is called before anything is taken, unless it is already.
  void take(const std::function<void()>& first) {
    const std::lock_guard lock(mutex_);
    if (users_++ > 0) return;
    first();
    for (Taken& one : taken_) {
      struct sigaction present {};
      sigaction(one.signal, nullptr, &present);
      if (present.sa_handler != SIG_DFL) continue;
      struct sigaction action {};
      action.sa_handler = handler_;
      sigemptyset(&action.sa_mask);
      action.sa_flags = flags_;
      one.is_taken = sigaction(one.signal, &action, &one.before) == 0;
    }
  }
  void give_back() {
    const std::lock_guard lock(mutex_);
    if (--users_ > 0) return;
    for (Taken& one : taken_) {
      struct sigaction present {};
      sigaction(one.signal, nullptr, &present);
      if (std::exchange(one.is_taken, false) && present.sa_handler == handler_) sigaction(one.signal, &one.before, nullptr);
    }
  }

 private:
  struct Taken {
    int signal;
    struct sigaction before;
    bool is_taken;
  };

  void (*handler_)(int);
  int flags_;
  std::mutex mutex_;
  int users_ = 0;
  std::vector<Taken> taken_;
};

}  // namespace levin
