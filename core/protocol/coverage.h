#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// Looks whether all ranks that could log a metric did. Gives "" when they did, else a text that names the key, the ranks with
/// and without it, the hook and the call site; the same on every rank.
/// Excused are ranks without a batch (batches[rank] == 0) from what is logged in the hooks of a batch, every rank but 0 from
/// what is rank_zero_only, and all others from `rank_{r}_…` logged by rank r.
std::string missing_ranks(const MetricEntry& entry, Level level, std::span<const Slot> by_rank,
                          std::span<const std::int64_t> batches);

}  // namespace levin::detail
