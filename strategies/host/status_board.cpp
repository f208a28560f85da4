#include "levin/strategies/host/status_board.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/terminal.h"

namespace levin {

namespace {

constexpr double kNanosecondsPerSecond = 1e9;

double seconds_since(std::int64_t since) {
  return static_cast<double>(monotonic_nanoseconds() - since) / kNanosecondsPerSecond;
}

std::string text_since(std::int64_t since) { return since == 0 ? "" : format("{:.1f} s", seconds_since(since)); }

const char* state_text(ProcessState state) {
  constexpr std::array kTexts = {"running", "stopped", "gone"};
  return kTexts.at(static_cast<std::size_t>(state));
}

Whereabouts whereabouts_in(const RankSlot& slot) {
  if (slot.where_version.load(std::memory_order_acquire) == 0) return kBeforeFirstHook;
  Whereabouts where;
  constexpr int kTries = 1000;  // a rank that died while writing leaves the version odd
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t version = slot.where_version.load(std::memory_order_acquire);
    where.stage = static_cast<Stage>(slot.stage.load(std::memory_order_acquire));
    where.hook = static_cast<Hook>(slot.hook.load(std::memory_order_acquire));
    where.epoch = slot.epoch.load(std::memory_order_acquire);
    where.step = slot.step.load(std::memory_order_acquire);
    if (version % 2 == 0 && version == slot.where_version.load(std::memory_order_relaxed)) break;
  }
  return where;
}

void kill_stopped_ranks(const RunSegment& segment) noexcept {
  // Our own launcher kills them, unless it is stopped too; another may wait for long.
  const ProcessId launcher = segment.launcher();
  if (launcher.number != 0 && process_state(launcher) == ProcessState::kRunning) return;
  for (int rank = segment.first_rank(); rank < segment.end_rank(); ++rank) {
    const ProcessId process = segment.process_of(rank);
    if (process.number != 0 && process_state(process) == ProcessState::kStopped) kill(process.number, SIGKILL);
  }
}

}  // namespace

StatusBoard::StatusBoard(std::shared_ptr<RunSegment> segment, int rank)
    : segment_(std::move(segment)),
      own_slot_(segment_ ? nullptr : std::make_unique<RankSlot>()),
      slot_(segment_ ? segment_->slot(rank) : *own_slot_),
      rank_(rank) {
  if (segment_) segment_->join(rank);
}

StatusBoard::~StatusBoard() = default;

void StatusBoard::post_whereabouts(const Whereabouts& where) noexcept {
  const std::uint32_t version = slot_.where_version.load(std::memory_order_relaxed);
  slot_.where_version.store(version + 1, std::memory_order_relaxed);
  // Release: a reader of one of these also sees the odd version.
  slot_.stage.store(static_cast<std::uint32_t>(where.stage), std::memory_order_release);
  slot_.hook.store(static_cast<std::uint32_t>(where.hook), std::memory_order_release);
  slot_.epoch.store(where.epoch, std::memory_order_release);
  slot_.step.store(where.step, std::memory_order_release);
  slot_.where_since.store(monotonic_nanoseconds(), std::memory_order_release);
  if (where.hook == Hook::kOnTrainBatchEnd) slot_.trained.store(1, std::memory_order_relaxed);
  slot_.where_version.store(version + 2, std::memory_order_release);
}

Whereabouts StatusBoard::own_whereabouts() const { return whereabouts_in(slot_); }

void StatusBoard::post_waiting(const char* what) noexcept {
  if (what != nullptr) slot_.waiting_in.write(what);
  slot_.waiting_since.store(what == nullptr ? 0 : monotonic_nanoseconds(), std::memory_order_release);
}

void StatusBoard::post_busy(bool busy) noexcept {
  if (busy) slot_.entered.store(1, std::memory_order_relaxed);
  slot_.busy.store(busy ? 1 : 0, std::memory_order_release);
}

void StatusBoard::keep_explanation(const std::string& text) {
  const std::lock_guard lock(mutex_);
  explanation_ = text;
}

std::optional<std::string> StatusBoard::explanation() const {
  const std::lock_guard lock(mutex_);
  return explanation_;
}

void StatusBoard::post_explained() noexcept { slot_.explained.store(1, std::memory_order_release); }

bool StatusBoard::has_explained() const noexcept { return slot_.explained.load(std::memory_order_acquire) != 0; }

void StatusBoard::post_saving(bool saving) noexcept { slot_.saving.store(saving ? 1 : 0, std::memory_order_release); }

bool StatusBoard::is_saving() const noexcept { return slot_.saving.load(std::memory_order_acquire) != 0; }

void StatusBoard::post_failed_alike() noexcept { slot_.failed_alike.store(1, std::memory_order_release); }

void StatusBoard::begin_reduction() noexcept {
  slot_.reductions.fetch_add(1, std::memory_order_relaxed);
  slot_.in_reduction.store(1, std::memory_order_release);
  post_waiting("the gradient reduction");
}

void StatusBoard::end_reduction() noexcept {
  if (slot_.in_reduction.load(std::memory_order_relaxed) == 0) return;
  slot_.in_reduction.store(0, std::memory_order_release);
  post_waiting(nullptr);
}

bool StatusBoard::claim_stall_report(double seconds) noexcept {
  std::atomic<std::int64_t>& reported = segment_ ? segment_->header().stall_reported : own_stall_reported_;
  std::int64_t last = reported.load();
  if (last != 0 && seconds_since(last) < seconds) return false;
  return reported.compare_exchange_strong(last, monotonic_nanoseconds());
}

std::optional<RankWait> StatusBoard::waiting() const {
  const std::int64_t since = slot_.waiting_since.load(std::memory_order_acquire);
  if (since == 0) return std::nullopt;
  return RankWait{slot_.waiting_in.read(), seconds_since(since), slot_.in_reduction.load(std::memory_order_acquire) != 0};
}

std::optional<int> SharedMemoryStatusBoard::rank_in_later_reduction() const {
  const std::int64_t own = slot().reductions.load(std::memory_order_relaxed);
  for (int peer = segment()->first_rank(); peer < segment()->end_rank(); ++peer) {
    const RankSlot& slot = segment()->slot(peer);
    const bool reduces = slot.in_reduction.load(std::memory_order_acquire) != 0;
    if (reduces && slot.reductions.load(std::memory_order_relaxed) > own) return peer;
  }
  return std::nullopt;
}

std::optional<int> SharedMemoryStatusBoard::ended_rank() const {
  for (int rank = segment()->first_rank(); rank < segment()->end_rank(); ++rank) {
    const ProcessId process = segment()->process_of(rank);
    const bool busy = segment()->slot(rank).busy.load(std::memory_order_acquire) != 0;
    if (busy && process.number != 0 && process_state(process) == ProcessState::kGone) return rank;
  }
  return std::nullopt;
}

std::optional<int> SharedMemoryStatusBoard::unattended_rank() const {
  const ProcessId launcher = segment()->launcher();
  if (launcher.number == 0 || process_state(launcher) != ProcessState::kStopped) return std::nullopt;
  return ended_rank();
}

std::optional<int> SharedMemoryStatusBoard::stalled_rank() const {
  std::optional<int> waits_for_nobody;
  for (int rank = segment()->first_rank(); rank < segment()->end_rank(); ++rank) {
    const ProcessId process = segment()->process_of(rank);
    if (process.number == 0 || process_state(process) == ProcessState::kStopped) return rank;
    if (!waits_for_nobody && segment()->slot(rank).waiting_since.load(std::memory_order_acquire) == 0) waits_for_nobody = rank;
  }
  return waits_for_nobody;
}

void SharedMemoryStatusBoard::report_failure(const FailureRecord& failure) noexcept {
  FailureRecord record = failure;
  if (record.rank != rank() && segment()->has(record.rank)) record.where = whereabouts_of(*segment(), record.rank);
  record_failure(*segment(), record);
}

std::optional<FailureRecord> SharedMemoryStatusBoard::failure() const { return recorded_failure(*segment()); }

void SharedMemoryStatusBoard::wait_for_failure(std::chrono::milliseconds limit) const {
  const auto& state = segment()->header().failure.state;
  const std::uint32_t seen = state.load(std::memory_order_acquire);
  if (seen != FailureSlot::kWritten) detail::futex_wait(state, seen, limit);
}

Whereabouts whereabouts_of(const RunSegment& segment, int rank) { return whereabouts_in(segment.slot(rank)); }

std::string SharedMemoryStatusBoard::table() const {
  TextTable table;
  table.header = {"rank", "process", "state", "in", "for", "waits in", "since"};
  table.align = {Align::kRight, Align::kRight, Align::kLeft, Align::kLeft, Align::kRight, Align::kLeft, Align::kRight};
  for (int rank = segment()->first_rank(); rank < segment()->end_rank(); ++rank) {
    const RankSlot& slot = segment()->slot(rank);
    const ProcessId process = segment()->process_of(rank);
    if (process.number == 0) {
      table.rows.push_back({std::to_string(rank), "", "has not joined"});
      continue;
    }
    const std::int64_t waiting_since = slot.waiting_since.load(std::memory_order_acquire);
    table.rows.push_back({std::to_string(rank), std::to_string(process.number), state_text(process_state(process)),
                          describe(whereabouts_in(slot)), text_since(slot.where_since.load()),
                          waiting_since == 0 ? "" : slot.waiting_in.read(), text_since(waiting_since)});
  }
  return table.str();
}

bool record_failure(RunSegment& segment, const FailureRecord& failure) noexcept {
  FailureSlot& slot = segment.header().failure;
  std::uint32_t none = FailureSlot::kNone;
  if (!slot.state.compare_exchange_strong(none, FailureSlot::kBeingWritten)) return false;
  print_failure(failure);
  slot.rank = failure.rank;
  slot.where = failure.where;
  slot.is_final = failure.is_final;
  slot.is_lost = failure.is_lost;
  const std::size_t length = std::min(failure.error.size(), slot.error.size() - 1);
  std::memcpy(slot.error.data(), failure.error.data(), length);
  slot.error[length] = '\0';
  slot.state.store(FailureSlot::kWritten, std::memory_order_release);
  detail::futex_wake_all(slot.state);
  kill_stopped_ranks(segment);
  return true;
}

std::optional<FailureRecord> recorded_failure(const RunSegment& segment) {
  const FailureSlot& slot = segment.header().failure;
  if (slot.state.load(std::memory_order_acquire) != FailureSlot::kWritten) return std::nullopt;
  const std::string error(slot.error.data(), strnlen(slot.error.data(), slot.error.size()));
  return FailureRecord{slot.rank, slot.where, error, slot.is_final, slot.is_lost};
}

std::string different_calls(int rank, const std::string& what, int other, const std::string& place) {
  return format(
      "ranks are in different calls:\n  rank {}: {}\n  rank {}: the gradient reduction of {}, which cannot end before rank {} "
      "takes part in it",
      rank, what, other, place, rank);
}

void StatusBoard::report_stall(const std::string& waited) noexcept {
  try {
    const int culprit = stalled_rank().value_or(rank());
    const std::string subject = culprit == rank() ? "it" : format("the others wait for it: rank {}", rank());
    report_failure({culprit, own_whereabouts(), format("{} {} (timeout_seconds). Ranks are:\n{}", subject, waited, table())});
  } catch (const std::exception&) {
    report_failure({rank(), own_whereabouts(), "timeout_seconds"});
  }
}

}  // namespace levin
