#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "levin/strategies/failure/failure.h"
#include "levin/strategies/host/run_segment.h"

namespace levin {

/// A rank's wait for others that has not ended.
struct RankWait {
  std::string what;  ///< "the gradient reduction", or a call of the control group
  double seconds = 0;
  bool in_reduction = false;  ///< which cannot be interrupted; other waits end by themselves
};

/// The state that ranks publish outside of any exchange: where each is, and that one has failed. Nothing here waits for another
/// rank. A rank's posts are in the memory of its host, where the others and its launcher see them, or else in its own.
/// Threading: any thread may read; one thread of a rank writes.
class StatusBoard {
 public:
  /// Joins `segment`, which may be null: from now on others see when this process ends.
  StatusBoard(std::shared_ptr<RunSegment> segment, int rank);
  virtual ~StatusBoard();

  int rank() const { return rank_; }
  virtual int size() const = 0;

  /// Where this rank is. Costs nanoseconds: called at every hook.
  void post_whereabouts(const Whereabouts& where) noexcept;
  Whereabouts own_whereabouts() const;
  /// Posts that this rank waits for the others in `what`; null: no longer.
  void post_waiting(const char* what) noexcept;
  /// This rank's wait for the others; unset: none.
  std::optional<RankWait> waiting() const;
  /// Posts that this rank is inside an entry point: ending now is a failure, also with status 0.
  void post_busy(bool busy) noexcept;
  /// The explanation that this rank will print once it has cleaned up. A process that ends it earlier prints it instead.
  void keep_explanation(const std::string& text);
  std::optional<std::string> explanation() const;
  /// This rank now prints, in one line, why it ends: no other process needs to.
  void post_explained() noexcept;
  bool has_explained() const noexcept;
  /// Posts that this rank saves what it can after a failure, or that it has done so.
  void post_saving(bool saving) noexcept;
  bool is_saving() const noexcept;
  /// Posts that this rank has failed with the same error as the first.
  void post_failed_alike() noexcept;
  /// Posts that this rank starts a gradient reduction, which ends only when all ranks have started it. Ends are cheap and may
  /// repeat.
  void begin_reduction() noexcept;
  void end_reduction() noexcept;
  /// True for one caller in `seconds`, among all ranks that share the memory: several notice a stall, one prints it.
  bool claim_stall_report(double seconds) noexcept;

  /// One line per rank: process, position, since when, and its wait. Read while ranks continue.
  virtual std::string table() const = 0;

  /// A rank that is in a gradient reduction which this rank has not started: that reduction cannot end while this rank waits
  /// for something else. The posts may be a moment old, but the conclusion holds.
  virtual std::optional<int> rank_in_later_reduction() const = 0;

  /// A rank whose process has ended inside an entry point, as far as this can be seen from here.
  virtual std::optional<int> ended_rank() const = 0;

  /// Such a rank when the launcher, which should record it, is stopped. The cost is a check of one process.
  virtual std::optional<int> unattended_rank() const { return std::nullopt; }

  /// Ranks are on several hosts: one that is silent may have lost its link.
  virtual bool spans_hosts() const { return false; }

  /// The rank that delays the others, as far as this rank can see: one that is stopped, or else one that is not waiting.
  virtual std::optional<int> stalled_rank() const = 0;

  /// Records the failure for all, and prints it before others can act on it; the first one stays. The board knows another
  /// rank's position better than the caller. Never waits for another rank.
  virtual void report_failure(const FailureRecord& failure) noexcept = 0;
  virtual std::optional<FailureRecord> failure() const = 0;
  /// Records that a rank delays this one too long, with the table of all positions. `waited`: "waited 5 s in …".
  void report_stall(const std::string& waited) noexcept;
  /// Sleeps until there is a failure, or for `limit`.
  virtual void wait_for_failure(std::chrono::milliseconds limit) const = 0;

 protected:
  const std::shared_ptr<RunSegment>& segment() const { return segment_; }
  const RankSlot& slot() const { return slot_; }

 private:
  std::shared_ptr<RunSegment> segment_;
  std::unique_ptr<RankSlot> own_slot_;                ///< without a segment
  std::atomic<std::int64_t> own_stall_reported_ = 0;  ///< likewise
  RankSlot& slot_;
  int rank_;
  mutable std::mutex mutex_;
  std::optional<std::string> explanation_;
};

/// The board of ranks on one host; "others" are those of this host.
class SharedMemoryStatusBoard final : public StatusBoard {
 public:
  SharedMemoryStatusBoard(std::shared_ptr<RunSegment> segment, int rank) : StatusBoard(std::move(segment), rank) {}

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

// The same for the launcher.
Whereabouts whereabouts_of(const RunSegment& segment, int rank);
/// True when this call wrote the record, and printed it: the first failure stays. Kills stopped ranks, which cannot end by
/// themselves, unless levin's launcher does.
bool record_failure(RunSegment& segment, const FailureRecord& failure) noexcept;
std::optional<FailureRecord> recorded_failure(const RunSegment& segment);

/// The message when `rank` waits in `what` while `other` is in a gradient reduction at `place`.
std::string different_calls(int rank, const std::string& what, int other, const std::string& place);

}  // namespace levin
