#pragma once

#include <memory>

#include "levin/strategies/failure/status_board.h"
#include "levin/strategies/host/run_segment.h"

namespace levin {

/// The board of ranks on one host; what is asked of others is asked of those of this host.
class SharedMemoryStatusBoard : public StatusBoard {
 public:
  /// Joins: from now on others see when this process ends.
  SharedMemoryStatusBoard(std::shared_ptr<RunSegment> segment, int rank);

  int rank() const override { return rank_; }
  int size() const override { return segment_->ranks(); }
  void post_whereabouts(const Whereabouts& where) noexcept override;
  Whereabouts own_whereabouts() const override;
  void post_waiting(const char* what) noexcept override;
  void post_busy(bool busy) noexcept override;
  void post_explained() noexcept override;
  void post_failed_alike() noexcept override;
  void begin_reduction() noexcept override;
  void end_reduction() noexcept override;
  std::string table() const override;
  bool claim_stall_report(double seconds) noexcept override;
  std::optional<RankWait> waiting() const override;
  std::optional<int> rank_in_later_reduction() const override;
  std::optional<int> ended_rank() const override;
  std::optional<int> unattended_rank() const override;
  std::optional<int> stalled_rank() const override;
  void report_failure(const FailureRecord& failure) noexcept override;
  std::optional<FailureRecord> failure() const override;
  void wait_for_failure(std::chrono::milliseconds limit) const override;

 private:
  void kill_stopped_ranks() const noexcept;

  std::shared_ptr<RunSegment> segment_;
  int rank_;
  RankSlot& slot_;
};

// The same for who is no rank: the launcher.
Whereabouts whereabouts_of(const RunSegment& segment, int rank);
std::string whereabouts_table(const RunSegment& segment);
/// True when this call wrote the record, and printed it: the first failure stays.
bool record_failure(RunSegment& segment, const FailureRecord& failure) noexcept;
std::optional<FailureRecord> recorded_failure(const RunSegment& segment);

}  // namespace levin
