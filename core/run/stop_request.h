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
  /// An entry point begins, which may heed signals. What was asked for in the one before is forgotten, what was since then not.
  void begin(bool heeds_signals);
  /// It ends.
  void end();

  /// This rank wants training to stop. An empty reason keeps the one given before.
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

  /// The signal that this process received, and the entry point heeds; 0 for none. Ranks agree on it with their votes.
  int received_signal() const;
  /// This rank's votes as they are now; a signal that this process received is among them.
  Votes votes(bool has_next_batch) const;
  /// Takes over the votes of all ranks, which each of them has. Gives them merged.
  Votes adopt(const std::vector<Votes>& by_rank);
  /// A run that resumes had agreed on it before.
  void agree() { agreed_ = true; }

  /// The ranks agreed to stop.
  bool agreed() const { return agreed_; }
  /// The signal for which they agreed to end; 0 for none.
  int signal() const { return signal_; }
  /// Throws Interrupted, saying where ("during fit"), when they agreed to end for a signal.
  void throw_if_signalled(const std::string& where) const;
  /// Why training stops, in words, once that is agreed.
  std::string explain(int world_size) const;

 private:
  mutable std::mutex mutex_;  ///< of what other threads ask for
  std::atomic<bool> asked_ = false;
  bool asked_before_the_end_ = false;  ///< of the entry point before
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
