#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "levin/strategies/processes/futex.h"

namespace levin {

/// A number in shared memory that processes raise and others wait for. It wraps around.
struct SharedCount {
  alignas(64) std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;  ///< processes that sleep on it

  /// Raises it by one, and wakes who sleeps when it has come to `awaited`. Everything written before is seen by whoever sees
  /// the new number.
  void raise(std::uint32_t awaited) {
    // Sequentially consistent, as is the sleeper's side: either we see the sleeper, or it sees the new number.
    if (value.fetch_add(1, std::memory_order_seq_cst) + 1 != awaited) return;
    if (sleepers.load(std::memory_order_seq_cst) > 0) detail::futex_wake_all(value);
  }
  bool has_reached(std::uint32_t number) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - number) >= 0;
  }
  /// Sleeps until it is there, or for `limit`; may end early.
  void sleep_until(std::uint32_t number, std::chrono::nanoseconds limit) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = value.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - number) < 0) detail::futex_wait(value, seen, limit);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
};

}  // namespace levin
