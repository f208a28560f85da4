#pragma once

#include <csignal>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace levin {

/// Signals that one function handles while this exists. A signal that the program ignores (nohup) or handles, also if it starts
/// to later, stays the program's. Threading: any.
class SignalHandlers {
 public:
  SignalHandlers(const std::vector<int>& signals, void (*handler)(int), int flags) : handler_(handler), flags_(flags) {
    for (const int signal : signals) taken_.push_back({signal, {}, false});
  }

  /// `first` is called before the first signal is handled. `wanted`: the signals to handle; null: all.
  void take(const std::function<void()>& first, const std::function<bool(int signal)>& wanted = {}) {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) first();
    for (Taken& one : taken_) {
      if (one.is_taken || (wanted && !wanted(one.signal))) continue;
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
  /// `last` is called when no signal is handled any longer.
  void give_back(const std::function<void()>& last = {}) {
    const std::lock_guard lock(mutex_);
    if (--users_ > 0) return;
    for (Taken& one : taken_) {
      struct sigaction present {};
      sigaction(one.signal, nullptr, &present);
      if (std::exchange(one.is_taken, false) && present.sa_handler == handler_) sigaction(one.signal, &one.before, nullptr);
    }
    if (last) last();
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

/// Ignores SIGPIPE from here on, unless the program has set it: writing to a pipe without a reader, or to a process that is
/// gone, is then only an error of that write. Programs that this one starts have the default.
inline void ignore_broken_pipes() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  // A handler that does nothing, because an ignored signal stays ignored in programs that this one starts.
  action = {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace levin
