#pragma once

#include <csignal>
#include <functional>

namespace levin {

/// True for a signal by which somebody asks again, `times` in a row, this one included: SIGINT from a keyboard, but not what
/// `timeout` passes on of one that the process has got itself; SIGTERM and SIGHUP later than what a launcher and a group of
/// processes may send together. Async-signal-safe.
constexpr bool asks_again(int signal, int times, double seconds_since_first) {
  constexpr double kMomentOfKeys = 0.25, kMomentOfLaunchers = 10;
  if (signal == SIGINT) return times >= 2 && seconds_since_first >= kMomentOfKeys;
  return (signal == SIGTERM || signal == SIGHUP) && times >= 2 && seconds_since_first >= kMomentOfLaunchers;
}
/// True for one that ends the process at once: SIGINT the second time, SIGTERM and SIGHUP the third. Async-signal-safe.
constexpr bool ends_at_once(int signal, int times, double seconds_since_first) {
  return asks_again(signal, times, seconds_since_first) && (signal == SIGINT || times >= 3);
}

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1, and SIGUSR2 where it is wanted `also`, are remembered instead of ending
/// the process, unless one ends_at_once(), whatever the process waits for. A signal that the user ignores (nohup) or handles
/// stays his. Scopes overlap, in any threads, and share what they remember.
class SignalScope {
 public:
  explicit SignalScope(const std::function<bool(int signal)>& also = {});
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  /// The last signal received since the first of the scopes that live now; 0 for none.
  static int received();
};

}  // namespace levin
