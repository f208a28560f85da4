#pragma once

#include <csignal>
#include <functional>

namespace levin {

/// True for a repeated signal, `times` in a row, this one included: SIGINT from a keyboard, except a copy that `timeout` passes
/// on; SIGTERM and SIGHUP later than a launcher and a group of processes may send them together. Async-signal-safe.
constexpr bool asks_again(int signal, int times, double seconds_since_first) {
  constexpr double kMomentOfKeys = 0.25, kMomentOfLaunchers = 10;
  if (signal == SIGINT) return times >= 2 && seconds_since_first >= kMomentOfKeys;
  return (signal == SIGTERM || signal == SIGHUP) && times >= 2 && seconds_since_first >= kMomentOfLaunchers;
}
/// True for a signal that ends the process at once: SIGINT the second time, SIGTERM and SIGHUP the third. Async-signal-safe.
constexpr bool ends_at_once(int signal, int times, double seconds_since_first) {
  return asks_again(signal, times, seconds_since_first) && (signal == SIGINT || times >= 3);
}

/// During its lifetime, SIGINT, SIGTERM, SIGHUP and SIGUSR1, and SIGUSR2 if it is in `also`, are stored instead of ending the
/// process, unless one ends_at_once(). A signal that the user ignores (nohup) or handles stays the user's. Scopes may overlap,
/// in any threads, and share stored signals.
class SignalScope {
 public:
  explicit SignalScope(const std::function<bool(int signal)>& also = {});
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  /// The last signal since the first of the present scopes began; 0: none.
  static int received();
};

}  // namespace levin
