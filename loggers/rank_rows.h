#pragma once

#include <cstdint>

#include "levin/core/protocol/metrics.h"

namespace levin {

/// With `per_rank`, whether a logger keeps a rank's own values: those of an epoch's end, and of every so manieth step or, in an
/// evaluation, batch.
inline bool is_rank_row_due(const MetricRow& row, std::int64_t every_n_steps) {
  return row.epoch_end || (row.evaluation_batch.value_or(row.step) + 1) % every_n_steps == 0;
}

}  // namespace levin
