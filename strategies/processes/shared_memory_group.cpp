#include "levin/strategies/processes/shared_memory_group.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
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

void copy_into(std::string& part, std::uint64_t size, std::size_t offset, std::span<const std::byte> bytes) {
  part.resize(size);
  std::memcpy(part.data() + offset, bytes.data(), bytes.size());
}

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

/// What this rank calls.
struct SharedMemoryGroup::Call {
  GroupOperation operation;
  std::span<const std::byte> mine;
  const char* what;
  std::uint64_t longest = std::numeric_limits<std::uint64_t>::max();
  std::int32_t root = 0;
};

void SharedMemoryGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  check_sizes(mine, all, what);
  meet({GroupOperation::kAllGather, mine, what},
       [&](int peer, std::uint64_t, std::size_t offset, std::span<const std::byte> bytes) {
         std::copy(bytes.begin(), bytes.end(), all.data() + static_cast<std::size_t>(peer) * mine.size() + offset);
       });
}

std::vector<std::string> SharedMemoryGroup::gather(std::string_view mine, std::uint64_t longest, const char* what) {
  std::vector<std::string> parts(rank() == 0 ? static_cast<std::size_t>(size()) : 0);
  meet({GroupOperation::kGather, std::as_bytes(std::span(mine)), what, longest},
       [&](int peer, std::uint64_t size, std::size_t offset, std::span<const std::byte> bytes) {
         if (rank() == 0) copy_into(parts[static_cast<std::size_t>(peer)], size, offset, bytes);
       });
  return parts;
}

std::string SharedMemoryGroup::broadcast(std::string_view mine, int root, std::uint64_t longest, const char* what) {
  check_root(root, what);
  std::string received;
  meet({GroupOperation::kBroadcast, std::as_bytes(std::span(rank() == root ? mine : "")), what, longest, root},
       [&](int peer, std::uint64_t size, std::size_t offset, std::span<const std::byte> bytes) {
         if (peer == root) copy_into(received, size, offset, bytes);
       });
  return received;
}

template <class Take>
void SharedMemoryGroup::meet(const Call& call, const Take& take) {
  if (broken_) std::rethrow_exception(broken_);
  board_->end_reduction();
  board_->post_waiting(call.what);
  std::vector<std::uint64_t> sizes;
  std::uint64_t most = 0;
  for (std::size_t offset = 0; offset == 0 || offset < most; offset += kChunkBytes) {
    publish(call, offset);
    wait_for_all(call.what);
    if (offset == 0) {
      sizes = check_same_call(call.longest);
      most = *std::max_element(sizes.begin(), sizes.end());
    }
    for (int peer = 0; peer < size(); ++peer) {
      const std::uint64_t bytes = sizes[static_cast<std::size_t>(peer)];
      if (offset >= bytes) continue;
      const Chunk& chunk = segment_->slot(peer).chunks[(published_ - 1) % 2];
      take(peer, bytes, offset, std::span(chunk.bytes).first(std::min(kChunkBytes, bytes - offset)));
    }
  }
  board_->post_waiting(nullptr);
}

void SharedMemoryGroup::publish(const Call& call, std::size_t offset) {
  RankSlot& slot = segment_->slot(rank());
  Chunk& chunk = slot.chunks[published_ % 2];
  chunk.total_bytes = call.mine.size();
  chunk.operation = static_cast<std::uint32_t>(call.operation);
  chunk.root = call.root;
  const std::size_t length = strnlen(call.what, chunk.what.size() - 1);
  std::memcpy(chunk.what.data(), call.what, length);
  chunk.what[length] = '\0';
  const auto rest = call.mine.subspan(std::min(offset, call.mine.size()));
  std::copy_n(rest.begin(), std::min(kChunkBytes, rest.size()), chunk.bytes.begin());
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

std::vector<std::uint64_t> SharedMemoryGroup::check_same_call(std::uint64_t longest) {
  const int parity = static_cast<int>((published_ - 1) % 2);
  std::vector<GroupCall> calls;
  std::vector<std::uint64_t> sizes;
  for (int peer = 0; peer < size(); ++peer) {
    const Chunk& chunk = segment_->slot(peer).chunks[parity];
    calls.push_back({static_cast<GroupOperation>(chunk.operation), text_in(chunk.what), chunk.total_bytes, chunk.root});
    sizes.push_back(chunk.total_bytes);
  }
  if (const std::string different = describe_different_calls(calls); !different.empty()) fail(different);
  if (const std::string too_long = describe_too_long(calls, longest); !too_long.empty()) fail(too_long);
  return sizes;
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
