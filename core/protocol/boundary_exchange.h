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
#include "levin/core/protocol/exchanged_metric.h"
#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metric_table.h"

namespace levin {

// Limits of what another rank may announce before it sends it.

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

/// The only part of the protocol that communicates.
class BoundaryExchange {
 public:
  BoundaryExchange(ControlGroup& group, MetricTable& table) : group_(group), table_(table) {}
  /// The next meet() reads it with what is due, in one wait.
  void read_along(std::shared_ptr<DeferredValue> value) { read_along_.push_back(std::move(value)); }

  /// Exchanges the frames of all ranks: one all_gather, and a second when any rank has metrics that the group has not agreed
  /// on, or has failed. Afterwards all metrics are agreed. The result stays valid until the next call.
  /// Ranks: all. Throws DesyncError or MisuseError, the same on every rank; a failure to read this rank's deferred values is
  /// rethrown here, and is a DesyncError on the others.
  const Exchanged& meet(const Boundary& boundary, Hook hook, const Votes& votes, const BoundaryPayload& payload,
                        std::int64_t batches);

  std::int64_t collectives() const { return collectives_; }

 private:
  /// Reads this rank's due deferred values, all with one wait, and makes its payload. A failure is stored for the second
  /// exchange.
  void settle(BoundaryKind kind);
  NewMetrics own_new_metrics() const;
  std::vector<NewMetrics> exchange_new_metrics(const std::vector<std::byte>& mine);
  void gather_rows();
  void gather_frames(const FrameHeader& header);
  void add_new_metrics(const std::vector<NewMetrics>& by_rank, const Boundary& boundary);
  void gather(std::span<const std::byte> mine, std::span<std::byte> all);

  ControlGroup& group_;
  MetricTable& table_;
  // Reused from one boundary to the next for their memory.
  std::vector<std::byte> frame_;   ///< this rank's: a header, then slots
  std::vector<std::byte> frames_;  ///< of all ranks
  Exchanged exchanged_;
  std::vector<ExchangedMetric> own_new_;  ///< what is due of metrics that only this rank knows of as yet, in their order
  std::string what_;                      ///< names the exchange to the group
  std::exception_ptr failure_;
  std::string failure_text_;
  std::vector<std::shared_ptr<DeferredValue>> read_along_;
  std::uint64_t sequence_ = 0;
  std::int64_t collectives_ = 0;
};

/// "rank 3", "ranks 0, 2", "ranks 0-5, 9". The ranks ascend.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace detail
}  // namespace levin
