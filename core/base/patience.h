#pragma once

#include <atomic>
#include <chrono>
#include <csignal>

namespace levin {

/// Signals that do not end the process at once, but ask a run to stop (SignalScope). Async-signal-safe.
class HeededSignals {
 public:
  /// `again`: the sender of an earlier signal has sent another.
  static void note(bool again = false, int signal = SIGINT) noexcept {
    signal_.store(signal, std::memory_order_relaxed);
    is_pending_.store(true, std::memory_order_relaxed);
    if (again) asks_again_.store(true, std::memory_order_relaxed);
  }
  /// Clears earlier signals: the run ends for them, or begins.
  static void settle() noexcept {
    is_pending_.store(false, std::memory_order_relaxed);
    asks_again_.store(false, std::memory_order_relaxed);
  }
  /// A signal has come since.
  static bool is_pending() noexcept { return is_pending_.load(std::memory_order_relaxed); }
  /// The last one.
  static int signal() noexcept { return signal_.load(std::memory_order_relaxed); }
  /// A repeated signal has come since: waits are given up.
  static bool asks_again() noexcept { return asks_again_.load(std::memory_order_relaxed); }

 private:
  inline static std::atomic<bool> is_pending_ = false;
  inline static std::atomic<bool> asks_again_ = false;
  inline static std::atomic<int> signal_ = 0;
};

/// The limit of a wait that may never end: so long without progress, and not once a signal is pending. A run that ends for a
/// signal waits, too, until another one comes.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(std::chrono::duration<double> time) : time_(std::chrono::duration_cast<Clock::duration>(time)) { renew(); }

  /// There was progress.
  void renew() { ends_ = Clock::now() + time_; }
  bool is_over() const { return HeededSignals::is_pending() || Clock::now() >= ends_; }
  /// The time of the next check.
  Clock::time_point next_look() const {
    constexpr std::chrono::milliseconds kBetweenLooks(100);
    const Clock::time_point next = Clock::now() + kBetweenLooks;
    return next < ends_ ? next : ends_;
  }

 private:
  Clock::duration time_;
  Clock::time_point ends_;
};

}  // namespace levin
