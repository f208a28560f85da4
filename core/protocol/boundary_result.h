#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/metric_table.h"
#include "levin/core/protocol/metric_views.h"

namespace levin {

// What is believed of what another rank says before it has arrived.

/// The most bytes of new metrics that a rank may announce: some hundred thousand keys.
inline constexpr std::uint64_t kMostNewMetricsBytes = std::uint64_t{64} << 20;
/// The text in a field of fixed size that another rank has filled: up to its end, or the field's.
inline std::string_view text_in(std::span<const char> field) {
  const std::string_view text(field.data(), field.size());
  return text.substr(0, text.find('\0'));
}

}  // namespace levin

namespace levin::detail {

/// "rank 3", "ranks 0, 2", "ranks 0-5, 9". The ranks ascend.
std::string rank_list(const std::vector<int>& ranks);

/// "rank_3_": what the key of a value that is one rank's own begins with.
std::string rank_prefix(std::int64_t rank);

}  // namespace levin::detail

namespace levin::detail {

/// Looks whether all ranks that could log a metric did. Gives "" when they did, else a text that names the key, the ranks with
/// and without it, the hook and the call site; the same on every rank.
/// Excused are ranks without a batch (batches[rank] == 0) from what is logged in the hooks of a batch, every rank but 0 from
/// what is rank_zero_only, and all others from `rank_{r}_…` logged by rank r.
std::string missing_ranks(const MetricEntry& entry, Level level, std::span<const Slot> by_rank,
                          std::span<const std::int64_t> batches);

}  // namespace levin::detail

namespace levin::detail {

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

}  // namespace levin::detail
