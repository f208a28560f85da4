#pragma once

#include <atomic>
#include <chrono>

namespace levin {

/// Signals that the process heeds by and by, instead of ending at once: a run's, which ask it to stop (SignalScope).
/// Async-signal-safe.
class HeededSignals {
 public:
  /// `again`: somebody who has sent one before asks once more.
  static void note(bool again = false) noexcept {
    is_pending_.store(true, std::memory_order_relaxed);
    if (again) asks_again_.store(true, std::memory_order_relaxed);
  }
  /// What has come so far is heeded, or is of no account: the run ends for it, or begins.
  static void settle() noexcept {
    is_pending_.store(false, std::memory_order_relaxed);
    asks_again_.store(false, std::memory_order_relaxed);
  }
  /// One has come since.
  static bool is_pending() noexcept { return is_pending_.load(std::memory_order_relaxed); }
  /// One has come since that asks again: what could be waited for is given up.
  static bool asks_again() noexcept { return asks_again_.load(std::memory_order_relaxed); }

 private:
  inline static std::atomic<bool> is_pending_ = false;
  inline static std::atomic<bool> asks_again_ = false;
};

/// For how long somebody is waited for who may never come: so long without any progress, and no longer once a signal is
/// pending. A run that ends for a signal waits, too, until another one comes.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(std::chrono::duration<double> time) : time_(std::chrono::duration_cast<Clock::duration>(time)) { renew(); }

  /// There was progress.
  void renew() { ends_ = Clock::now() + time_; }
  bool is_over() const { return HeededSignals::is_pending() || Clock::now() >= ends_; }
  /// Until when to wait before one looks at it again.
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
