#include "levin/strategies/host/shared_lane.h"

#include <sched.h>

#include <chrono>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/host/status_board.h"

namespace levin {

namespace {

/// Some microseconds, within which ranks in step meet.
constexpr int kSpins = 300;
/// The kernel would move a sleeping rank to the core of the one that wakes it, where it would stay.
constexpr std::int64_t kYieldNanoseconds = 2'000'000;
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
struct PeerWaits::Wait {
  const SharedCount& count;
  std::uint32_t number;
  const char* what;
  const std::function<int()>& late_index;
  std::int64_t since;
  std::int64_t gone_since = 0;
  /// Checked again before an error: a rank that was here and has continued must not look like one that never came.
  bool is_over() const { return count.has_reached(number); }
};

PeerWaits::PeerWaits(std::shared_ptr<RunSegment> segment, std::shared_ptr<StatusBoard> board, double timeout_seconds,
                     WaitingThread thread)
    : segment_(std::move(segment)), board_(std::move(board)), timeout_seconds_(timeout_seconds), thread_(thread) {}

bool PeerWaits::comes_soon(const SharedCount& count, std::uint32_t number) {
  if (!has_own_core_) {
    // A launcher may have bound each rank to a core.
    const std::optional<int> cores = segment_->cores();
    if (cores) has_own_core_ = size() * (thread_ == WaitingThread::kHelper ? 2 : 1) <= *cores;
  }
  // With more threads than cores, a waiting thread yields the core at once.
  if (!has_own_core_.value_or(false)) return false;
  for (int spin = 0; spin < kSpins; ++spin) {
    if (count.has_reached(number)) return true;
    pause_cpu();
  }
  const std::int64_t end = monotonic_nanoseconds() + kYieldNanoseconds;
  while (monotonic_nanoseconds() < end) {
    sched_yield();
    if (count.has_reached(number)) return true;
  }
  return false;
}

void PeerWaits::sleep_until(SharedCount& count, std::uint32_t number, const char* what,
                            const std::function<int()>& late_index) {
  Wait wait{.count = count, .number = number, .what = what, .late_index = late_index, .since = monotonic_nanoseconds()};
  // Part of something larger, perhaps, which people know better.
  const bool posts = thread_ == WaitingThread::kOwn && !board_->waiting().has_value();
  if (posts) board_->post_waiting(what);
  while (true) {
    count.sleep_until(number, kSleep);
    if (wait.is_over()) break;
    check(wait);
  }
  if (posts) board_->post_waiting(nullptr);
}

void PeerWaits::check(Wait& wait) {
  if (is_given_up_) end_with(DesyncError(format("rank {} has aborted {}", board_->rank(), wait.what)));
  if (const auto failure = board_->failure()) end_because_of(*failure);

  const auto posted = board_->waiting();
  const std::string what = posted ? posted->what : wait.what;
  // Another thread waits within a reduction. On another host that may have ended, and the next one started.
  if (const auto later = thread_ == WaitingThread::kOwn ? board_->rank_in_later_reduction() : std::nullopt) {
    if (wait.is_over()) return;
    fail(different_calls(board_->rank(), what, *later, describe(whereabouts_of(*segment_, *later))));
  }

  const std::int64_t now = monotonic_nanoseconds();
  const int late_index = wait.late_index();
  if (late_index < 0) return;
  const int late = first_rank() + late_index;
  const ProcessId process = segment_->process_of(late);
  const bool is_gone = process.number != 0 && process_state(process) == ProcessState::kGone;
  if (is_gone) {
    if (wait.is_over()) return;
    if (wait.gone_since == 0) wait.gone_since = now;
    const bool launched = segment_->launcher().number != 0;
    if (!launched || now - wait.gone_since > kLauncherGrace) {
      board_->report_failure({.rank = late,
                              .where = whereabouts_of(*segment_, late),
                              .error = format("its process ended while other ranks wait in {}", what),
                              .is_lost = true});
      end_because_of(board_->failure().value_or(FailureRecord{late, {}, "its process ended"}));
    }
    return;
  }

  const double seconds = static_cast<double>(now - wait.since) / 1e9;
  if (seconds > timeout_seconds_) {
    board_->report_stall(format("waited {} s in {} for rank {}", static_cast<int>(seconds), what, late));
    end_because_of(board_->failure().value_or(FailureRecord{late, {}, "timeout_seconds"}));
  }
}

void PeerWaits::fail(const std::string& text) {
  board_->report_failure({board_->rank(), board_->own_whereabouts(), text});
  end_with(DesyncError(text));
}

void PeerWaits::end_because_of(const FailureRecord& failure) { end_with(RecordedFailure(failure.str())); }

template <class Failure>
void PeerWaits::end_with(const Failure& error) {
  if (thread_ == WaitingThread::kOwn) board_->post_waiting(nullptr);
  broken_ = std::make_exception_ptr(error);
  std::rethrow_exception(broken_);
}

SharedLane::SharedLane(PeerWaits& waits, std::vector<LanePart> parts) : waits_(waits), parts_(std::move(parts)) {}

void SharedLane::publish(const GroupCall& call) {
  LaneSlot& slot = *part(index()).slot;
  slot.headers[published_ % 2].set(call);
  ++published_;
  part(0).slot->all_published.raise(published_ * static_cast<std::uint32_t>(size()));
  // After that: a rank that ends between both is missed in the next wait at the latest.
  slot.published.store(published_, std::memory_order_release);
}

int SharedLane::late_index() const {
  for (int peer = 0; peer < size(); ++peer) {
    const std::uint32_t seen = part(peer).slot->published.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - published_) < 0) return peer;
  }
  return -1;
}

void SharedLane::wait_for_all(const char* what) {
  waits_.wait_for(part(0).slot->all_published, published_ * static_cast<std::uint32_t>(size()), what,
                  [this] { return late_index(); });
}

GroupCall SharedLane::call(int index) const { return part(index).slot->headers[(published_ - 1) % 2].call(); }

void SharedLane::check_same_call(std::uint64_t longest) {
  const GroupCall own = call(index());
  bool is_alike = own.bytes <= longest;
  for (int peer = 0; peer < size() && is_alike; ++peer) is_alike = call(peer) == own;
  if (is_alike) return;
  std::vector<GroupCall> calls;
  for (int peer = 0; peer < size(); ++peer) calls.push_back(call(peer));
  if (const std::string different = describe_different_calls(calls, waits_.first_rank()); !different.empty())
    waits_.fail(different);
  if (const std::string too_long = describe_too_long(calls, longest, waits_.first_rank()); !too_long.empty())
    waits_.fail(too_long);
}

}  // namespace levin
