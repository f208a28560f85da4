#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace levin::detail {

// Waiting on a word of shared memory, across processes. A wait may end early for no reason: callers look again.

inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{static_cast<time_t>(seconds.count()), static_cast<long>((limit - seconds).count())};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

inline void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace levin::detail

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

/// Of the name of a call that others read.
inline constexpr std::size_t kCallTextBytes = 192;

/// What lies in shared memory of one rank's side of a lane, beside its two buffers. Zero at first.
struct LaneSlot {
  struct Header {
    std::uint64_t total_bytes;
    std::uint32_t operation;  ///< a GroupOperation
    std::int32_t root;
    std::array<char, kCallTextBytes> what;
  };
  SharedCount all_published;             ///< at the first place: chunks of all ranks so far
  std::atomic<std::uint32_t> published;  ///< chunks so far
  std::array<Header, 2> headers;         ///< by parity of the chunk's number
};

}  // namespace levin
