#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"

namespace levin {

/// Requests to end training or the current epoch: this rank's, and those that the ranks agreed on. A request is agreed on when
/// votes are exchanged. Threading: requests from any thread, the rest from the one that runs hooks.
class StopRequest {
 public:
  /// Starts an entry point, which may handle signals. Drops requests of the previous one, but not later ones.
  void begin(bool heeds_signals);
  /// Ends it.
  void end();

  /// Requests a stop for this rank. An empty reason does not replace an earlier one.
  void ask(const std::string& reason = {});
  void take_back();
  bool asked() const { return asked_.load(std::memory_order_relaxed); }
  std::string reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

  /// Sets or withdraws this rank's request to end the current epoch.
  void skip_epoch(bool wish) { skips_epoch_ = wish; }
  bool skips_epoch() const { return skips_epoch_; }

  /// The signal that this process received and the entry point handles; 0: none. Ranks agree on it with their votes.
  int received_signal() const;
  /// This rank's votes as they are now; a signal that this process received is among them.
  Votes votes(bool has_next_batch) const;
  /// Adopts the votes of all ranks, which each of them has. Returns them merged.
  Votes adopt(const std::vector<Votes>& by_rank);
  /// The resumed run had agreed on it.
  void agree() { agreed_ = true; }

  /// True when the ranks agreed to stop.
  bool agreed() const { return agreed_; }
  /// The signal for which they agreed to end; 0: none.
  int signal() const { return signal_; }
  /// Throws Interrupted, saying where ("during fit"), when they agreed to end for a signal.
  void throw_if_signalled(const std::string& where) const;
  /// Why training stops, once that is agreed.
  std::string explain(int world_size) const;

 private:
  mutable std::mutex mutex_;  ///< for requests of other threads
  std::atomic<bool> asked_ = false;
  bool asked_before_the_end_ = false;  ///< of the previous entry point
  bool is_running_ = false;
  std::string reason_;  ///< as this rank gave it
  std::atomic<bool> agreed_ = false;
  bool heeds_signals_ = true;
  std::atomic<bool> skips_epoch_ = false;
  int signal_ = 0;
  int first_rank_ = 0;  ///< the lowest rank that asked
};

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
