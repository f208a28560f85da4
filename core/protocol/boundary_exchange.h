#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metric_table.h"
#include "levin/core/protocol/new_metrics.h"

namespace levin::detail {

/// What all ranks told one another at a boundary. Identical on all ranks.
struct Exchanged {
  std::vector<FrameHeader> headers;  ///< by rank
  std::vector<DueMetric> metrics;    ///< what this boundary carries, in the agreed order
  std::vector<Slot> slots;           ///< for each metric in turn, one slot a rank

  std::size_t ranks() const { return headers.size(); }
  std::span<const Slot> slots_of(std::size_t metric) const { return std::span(slots).subspan(metric * ranks(), ranks()); }
};

/// The only part of the protocol that communicates.
class BoundaryExchange {
 public:
  BoundaryExchange(ControlGroup& group, MetricTable& table) : group_(group), table_(table) {}

  /// Sends this rank's frame and takes in everyone's: one all_gather, and a second when any rank has metrics that the group has
  /// not agreed on, or has failed. Afterwards all metrics are agreed. The result stays valid until the next call.
  /// Ranks: all. Throws DesyncError or MisuseError, on every rank alike; a failure to read this rank's deferred values is
  /// rethrown here and is a DesyncError on the other ranks.
  const Exchanged& meet(const Boundary& boundary, Hook hook, const Votes& votes, const BoundaryPayload& payload,
                        std::int64_t batches);

  std::int64_t collectives() const { return collectives_; }

 private:
  /// Reads what is due of this rank's deferred values, all with one wait. A failure is kept for the second exchange.
  void settle();
  NewMetrics own_new_metrics(BoundaryKind kind) const;
  std::vector<NewMetrics> exchange_new_metrics(const std::vector<std::byte>& mine);
  void gather_frames(const FrameHeader& header);
  void add_new_metrics(const std::vector<NewMetrics>& by_rank, const Boundary& boundary);
  void gather(std::span<const std::byte> mine, std::span<std::byte> all);

  ControlGroup& group_;
  MetricTable& table_;
  Frames frames_;
  Exchanged exchanged_;
  std::string what_;  ///< names the meeting to the group
  std::exception_ptr failure_;
  std::string failure_text_;
  std::uint64_t sequence_ = 0;
  std::int64_t collectives_ = 0;
};

}  // namespace levin::detail
