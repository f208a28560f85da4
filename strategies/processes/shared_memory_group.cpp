#include "levin/strategies/processes/shared_memory_group.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/protocol/peer_limits.h"
#include "levin/strategies/processes/futex.h"
#include "levin/strategies/processes/peer_errors.h"

namespace levin {

namespace {

constexpr int kSpins = 2000;
constexpr auto kSleep = std::chrono::milliseconds(20);
/// The launcher sees a rank end, and knows how; it gets this long to write it down.
constexpr std::int64_t kLauncherGrace = 1'000'000'000;

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

/// What one wait knows between its checks.
struct SharedMemoryGroup::Wait {
  const char* what;
  std::int64_t since = 0;
  std::int64_t gone_since = 0;
  double seconds() const { return static_cast<double>(monotonic_nanoseconds() - since) / 1e9; }
};

SharedMemoryGroup::SharedMemoryGroup(std::shared_ptr<RunSegment> segment, std::shared_ptr<SharedMemoryStatusBoard> board,
                                     double timeout_seconds)
    : segment_(std::move(segment)),
      board_(std::move(board)),
      timeout_seconds_(timeout_seconds),
      // With more ranks than cores, spinning takes the core from the rank that is waited for.
      spins_(board_->size() <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0) {}

void SharedMemoryGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  if (broken_) std::rethrow_exception(broken_);
  check_sizes(mine, all, what);
  board_->end_reduction();
  board_->post_waiting(what);
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(kChunkBytes, mine.size() - offset);
    publish(mine.subspan(offset, length), mine.size(), what);
    wait_for_all(what);
    if (offset == 0) check_same_call();
    for (int peer = 0; peer < size(); ++peer) {
      const Chunk& chunk = segment_->slot(peer).chunks[(published_ - 1) % 2];
      if (length > 0)
        std::memcpy(all.data() + static_cast<std::size_t>(peer) * mine.size() + offset, chunk.bytes.data(), length);
    }
    offset += length;
  } while (offset < mine.size());
  board_->post_waiting(nullptr);
}

void SharedMemoryGroup::publish(std::span<const std::byte> bytes, std::size_t total_bytes, const char* what) {
  RankSlot& slot = segment_->slot(rank());
  Chunk& chunk = slot.chunks[published_ % 2];
  chunk.total_bytes = total_bytes;
  const std::size_t length = strnlen(what, chunk.what.size() - 1);
  std::memcpy(chunk.what.data(), what, length);
  chunk.what[length] = '\0';
  if (!bytes.empty()) std::memcpy(chunk.bytes.data(), bytes.data(), bytes.size());
  ++published_;
  // Sequentially consistent, as is the sleeper's side: either we see the sleeper, or it sees the new number.
  slot.published.store(published_, std::memory_order_seq_cst);
  if (slot.sleepers.load(std::memory_order_seq_cst) > 0) detail::futex_wake_all(slot.published);
}

void SharedMemoryGroup::wait_for_all(const char* what) {
  Wait wait{what};
  for (int peer = 0; peer < size(); ++peer) {
    wait.gone_since = 0;
    if (peer != rank()) wait_for(peer, wait);
  }
}

void SharedMemoryGroup::wait_for(int peer, Wait& wait) {
  RankSlot& slot = segment_->slot(peer);
  // The numbers wrap around; the difference does not.
  const auto missing = [&](std::uint32_t seen) { return static_cast<std::int32_t>(published_ - seen) > 0; };
  for (int i = 0; i < spins_; ++i) {
    if (!missing(slot.published.load(std::memory_order_acquire))) return;
    pause_cpu();
  }
  if (wait.since == 0) wait.since = monotonic_nanoseconds();
  while (true) {
    slot.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = slot.published.load(std::memory_order_seq_cst);
    if (missing(seen)) detail::futex_wait(slot.published, seen, kSleep);
    slot.sleepers.fetch_sub(1, std::memory_order_relaxed);
    if (!missing(slot.published.load(std::memory_order_acquire))) return;
    check_peer(peer, wait);
  }
}

void SharedMemoryGroup::check_peer(int peer, Wait& wait) {
  if (const auto failure = board_->failure()) end_because_of(*failure);

  if (const auto other = board_->rank_in_later_reduction()) {
    fail(different_calls(rank(), wait.what, *other, describe(whereabouts_of(*segment_, *other))));
  }

  const ProcessId process = segment_->process_of(peer);
  if (process.number != 0 && process_state(process) == ProcessState::kGone) {
    const std::int64_t now = monotonic_nanoseconds();
    if (wait.gone_since == 0) wait.gone_since = now;
    const bool launched = segment_->launcher().number != 0;
    if (!launched || now - wait.gone_since > kLauncherGrace) {
      board_->report_failure(
          {peer, whereabouts_of(*segment_, peer), format("its process ended while other ranks wait in {}", wait.what)});
      end_because_of(board_->failure().value_or(FailureRecord{peer, {}, "its process ended"}));
    }
    return;
  }

  const double seconds = wait.seconds();
  if (seconds > timeout_seconds_) {
    board_->report_stall(format("waited {} s in {} for rank {}", static_cast<int>(seconds), wait.what, peer));
    end_because_of(board_->failure().value_or(FailureRecord{peer, {}, "timeout_seconds"}));
  }
}

void SharedMemoryGroup::check_same_call() {
  const int parity = static_cast<int>((published_ - 1) % 2);
  std::vector<GroupCall> calls;
  for (int peer = 0; peer < size(); ++peer) {
    const Chunk& chunk = segment_->slot(peer).chunks[parity];
    calls.push_back({text_in(chunk.what), chunk.total_bytes});
  }
  const std::string different = describe_different_calls(calls);
  if (!different.empty()) fail(different);
}

void SharedMemoryGroup::fail(const std::string& text) {
  board_->post_waiting(nullptr);
  board_->report_failure({rank(), board_->own_whereabouts(), text});
  broken_ = std::make_exception_ptr(DesyncError(text));
  std::rethrow_exception(broken_);
}

void SharedMemoryGroup::end_because_of(const FailureRecord& failure) {
  board_->post_waiting(nullptr);
  broken_ = std::make_exception_ptr(RecordedFailure(failure.str()));
  std::rethrow_exception(broken_);
}

}  // namespace levin
