#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/host/status_board.h"

namespace levin {

/// The thread of a rank that waits.
enum class WaitingThread {
  kOwn,     ///< the one that posts the rank's position: it also posts its waits
  kHelper,  ///< another, for parts of reductions: it posts nothing, and yields the cores to the first
};

/// A rank's waits for other ranks of its host. A wait ends with DesyncError, on every rank, when a rank has failed or ended,
/// when a rank is in a gradient reduction that cannot end because this rank waits here, and after the time limit. Every later
/// wait then throws the same error. Threading: used by one thread at a time.
class PeerWaits {
 public:
  /// `segment`: of the ranks that wait for one another. `board`: theirs, or that of a run on several hosts. `timeout_seconds`:
  /// the limit of a wait.
  PeerWaits(std::shared_ptr<RunSegment> segment, std::shared_ptr<StatusBoard> board, double timeout_seconds,
            WaitingThread thread = WaitingThread::kOwn);

  /// This rank's index among those of the segment, counted from 0.
  int index() const { return board_->rank() - segment_->first_rank(); }
  /// The number of ranks of the segment.
  int size() const { return segment_->ranks(); }
  /// The rank with index 0.
  int first_rank() const { return segment_->first_rank(); }
  StatusBoard& board() const { return *board_; }

  /// Throws the error that ended an earlier wait, if one did.
  void check_usable() const {
    if (broken_) std::rethrow_exception(broken_);
  }
  /// Waits until the count reaches `number`. `late_index()`: the index of a rank that has not arrived, or a negative number.
  /// `what`: the call of this rank.
  template <class LateIndex>
  void wait_for(SharedCount& count, std::uint32_t number, const char* what, const LateIndex& late_index) {
    if (!count.has_reached(number) && !comes_soon(count, number)) sleep_until(count, number, what, late_index);
  }
  /// Records this rank's failure, and throws it now and at every later wait.
  [[noreturn]] void fail(const std::string& text);
  /// Ends a wait, and every later one, with a DesyncError within milliseconds. Threading: any thread.
  void give_up() noexcept { is_given_up_ = true; }

 private:
  struct Wait;
  bool comes_soon(const SharedCount& count, std::uint32_t number);
  void sleep_until(SharedCount& count, std::uint32_t number, const char* what, const std::function<int()>& late_index);
  void check(Wait& wait);
  /// The same as fail() for a recorded failure.
  [[noreturn]] void end_because_of(const FailureRecord& failure);
  template <class Failure>
  [[noreturn]] void end_with(const Failure& error);

  std::shared_ptr<RunSegment> segment_;
  std::shared_ptr<StatusBoard> board_;
  double timeout_seconds_;
  WaitingThread thread_;
  std::optional<bool> has_own_core_;  ///< known once all ranks have joined
  std::atomic<bool> is_given_up_{false};
  std::exception_ptr broken_;
};

/// A rank's side of a lane. Both buffers are as long as those of the other ranks.
struct LanePart {
  LaneSlot* slot = nullptr;
  std::array<std::byte*, 2> buffers{};
};

/// Exchanges chunks of bytes between the ranks of a host: each writes its own, all read all.
///
/// A rank has two buffers, used in turn. Chunk n of a rank may be overwritten with its chunk n + 2: a rank publishes chunk n +
/// 1 only after it has read all chunks n, so a rank that sees all chunks n + 1 knows that all have read its chunk n. Threading:
/// used by one thread at a time.
class SharedLane {
 public:
  /// `parts`: by index.
  SharedLane(PeerWaits& waits, std::vector<LanePart> parts);

  int index() const { return waits_.index(); }
  int size() const { return waits_.size(); }

  /// This rank's buffer for the next chunk, to write before publish().
  std::byte* own_buffer() const { return part(index()).buffers[published_ % 2]; }
  /// Publishes own_buffer() as this rank's next chunk. `call`: its call.
  void publish(const GroupCall& call);
  /// Waits until every rank has published as many chunks as this one. Throws as PeerWaits::wait_for() does.
  void wait_for_all(const char* what);
  /// Throws DesyncError, on every rank, unless all ranks have published the last chunk for the same call, in which each
  /// contributes no more than `longest` bytes.
  void check_same_call(std::uint64_t longest = std::numeric_limits<std::uint64_t>::max());
  /// The call of the last chunk of the rank with an index.
  GroupCall call(int index) const;
  /// That rank's chunk with the number of this rank's last one, valid until this rank publishes the next but one.
  const std::byte* chunk(int index) const { return part(index).buffers[(published_ - 1) % 2]; }

 private:
  /// The index of a rank that has not published as many chunks as this one; -1 when there is none.
  int late_index() const;
  const LanePart& part(int index) const { return parts_[static_cast<std::size_t>(index)]; }

  PeerWaits& waits_;
  std::vector<LanePart> parts_;
  std::uint32_t published_ = 0;  ///< chunks of this rank so far
};

}  // namespace levin
