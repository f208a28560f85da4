#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metric_table.h"

namespace levin {

// What is believed of what another rank says before it has arrived.

/// The most bytes of rows that a rank may announce.
inline constexpr double kMostRowBytes = double{1} * (std::uint64_t{1} << 40);
/// The most bytes of new metrics that a rank may announce: some hundred thousand keys.
inline constexpr std::uint64_t kMostNewMetricsBytes = std::uint64_t{64} << 20;
/// The text in a field of fixed size that another rank has filled: up to its end, or the field's.
inline std::string_view text_in(std::span<const char> field) {
  const std::string_view text(field.data(), field.size());
  return text.substr(0, text.find('\0'));
}

namespace detail {

/// A metric that a boundary carries, what is due of it, and what all ranks told one another of it.
struct ExchangedMetric {
  MetricEntry* entry;
  Level level;
  std::vector<Slot> slots{};  ///< by rank
  // Of a metric object: as ObjectLayout says.
  std::vector<double> own_numbers{};             ///< this rank's
  std::vector<double> numbers{};                 ///< by rank
  std::vector<std::vector<std::string>> rows{};  ///< by rank: the lists of rows; empty where they are known from before

  std::span<const double> numbers_of(std::size_t rank) const {
    return std::span(numbers).subspan(rank * entry->layout.size(), entry->layout.size());
  }
  /// Bytes of each list of rows.
  std::span<const double> sizes_of_rows(std::size_t rank) const {
    return numbers_of(rank).subspan(entry->layout.numbers, entry->layout.rows);
  }
};

/// What all ranks told one another at a boundary. Identical on all ranks, but for own_numbers.
struct Exchanged {
  std::vector<FrameHeader> headers;      ///< by rank
  std::vector<ExchangedMetric> metrics;  ///< what this boundary carries, in the agreed order

  std::size_t ranks() const { return headers.size(); }
};

/// The only part of the protocol that communicates.
class BoundaryExchange {
 public:
  BoundaryExchange(ControlGroup& group, MetricTable& table) : group_(group), table_(table) {}
  /// The next meet() reads it with what is due, in one wait.
  void read_along(std::shared_ptr<DeferredValue> value) { read_along_.push_back(std::move(value)); }

  /// Sends this rank's frame and takes in everyone's: one all_gather, and a second when any rank has metrics that the group has
  /// not agreed on, or has failed. Afterwards all metrics are agreed. The result stays valid until the next call.
  /// Ranks: all. Throws DesyncError or MisuseError, on every rank alike; a failure to read this rank's deferred values is
  /// rethrown here, and is a DesyncError on the others.
  const Exchanged& meet(const Boundary& boundary, Hook hook, const Votes& votes, const BoundaryPayload& payload,
                        std::int64_t batches);

  std::int64_t collectives() const { return collectives_; }

 private:
  /// Reads what is due of this rank's deferred values, all with one wait. A failure is kept for the second exchange.
  void settle();
  NewMetrics own_new_metrics(BoundaryKind kind) const;
  std::vector<NewMetrics> exchange_new_metrics(const std::vector<std::byte>& mine);
  void gather_rows();
  void gather_frames(const FrameHeader& header);
  void add_new_metrics(const std::vector<NewMetrics>& by_rank, const Boundary& boundary);
  void gather(std::span<const std::byte> mine, std::span<std::byte> all);

  ControlGroup& group_;
  MetricTable& table_;
  // Kept from one boundary to the next for their memory.
  std::vector<std::byte> frame_;   ///< this rank's: a header, then slots
  std::vector<std::byte> frames_;  ///< of all ranks
  Exchanged exchanged_;
  std::string what_;  ///< names the meeting to the group
  std::exception_ptr failure_;
  std::string failure_text_;
  std::vector<std::shared_ptr<DeferredValue>> read_along_;
  std::uint64_t sequence_ = 0;
  std::int64_t collectives_ = 0;
};

/// "rank 3", "ranks 0, 2", "ranks 0-5, 9". The ranks ascend.
std::string rank_list(const std::vector<int>& ranks);

/// What the run wants of a boundary beyond the values.
struct BoundaryPolicy {
  bool strict_logging = false;
  const std::function<void(const std::string&)>& warn;
  std::size_t& coverage_warnings;  ///< of keys that only some ranks logged, so far in the run
};

/// Reduces what the ranks exchanged, brings it into this rank's views, and makes the rows for loggers. Communicates nothing.
/// Throws MisuseError, with the same text on every rank, when strict_logging is on and a metric is missing on some ranks.
BoundaryOutcome conclude(const Boundary& boundary, const Exchanged& exchanged, int rank, const BoundaryPolicy& policy,
                         MetricViews& views);

}  // namespace detail
}  // namespace levin
