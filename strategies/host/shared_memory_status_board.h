#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "levin/strategies/failure/status_board.h"
#include "levin/strategies/host/run_segment.h"

namespace levin {

/// What a rank says of itself: in the memory of its host, where the others and its launcher see it, or else in its own.
class RankSlotBoard : public StatusBoard {
 public:
  /// Joins `segment`, which may be null: from now on others see when this process ends.
  RankSlotBoard(std::shared_ptr<RunSegment> segment, int rank);

  int rank() const override { return rank_; }
  void post_whereabouts(const Whereabouts& where) noexcept override;
  Whereabouts own_whereabouts() const override;
  void post_waiting(const char* what) noexcept override;
  void post_busy(bool busy) noexcept override;
  void post_explained() noexcept override;
  void post_failed_alike() noexcept override;
  void begin_reduction() noexcept override;
  void end_reduction() noexcept override;
  /// Once for all ranks that share the memory.
  bool claim_stall_report(double seconds) noexcept override;
  std::optional<RankWait> waiting() const override;

 protected:
  const std::shared_ptr<RunSegment>& segment() const { return segment_; }
  const RankSlot& slot() const { return slot_; }

 private:
  std::shared_ptr<RunSegment> segment_;
  std::unique_ptr<RankSlot> own_slot_;                ///< without a segment
  std::atomic<std::int64_t> own_stall_reported_ = 0;  ///< likewise
  RankSlot& slot_;
  int rank_;
};

/// The board of ranks on one host; what is asked of others is asked of those of this host.
class SharedMemoryStatusBoard final : public RankSlotBoard {
 public:
  SharedMemoryStatusBoard(std::shared_ptr<RunSegment> segment, int rank) : RankSlotBoard(std::move(segment), rank) {}

  int size() const override { return segment()->ranks(); }
  std::string table() const override;
  std::optional<int> rank_in_later_reduction() const override;
  std::optional<int> ended_rank() const override;
  std::optional<int> unattended_rank() const override;
  std::optional<int> stalled_rank() const override;
  void report_failure(const FailureRecord& failure) noexcept override;
  std::optional<FailureRecord> failure() const override;
  void wait_for_failure(std::chrono::milliseconds limit) const override;
};

// The same for who is no rank: the launcher.
Whereabouts whereabouts_of(const RunSegment& segment, int rank);
/// True when this call wrote the record, and printed it: the first failure stays. Kills ranks that are stopped, which cannot
/// end by themselves, unless a launcher of ours does.
bool record_failure(RunSegment& segment, const FailureRecord& failure) noexcept;
std::optional<FailureRecord> recorded_failure(const RunSegment& segment);

}  // namespace levin
