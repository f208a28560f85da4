#pragma once

#include <cstdint>

#include "levin/core/protocol/metrics.h"

namespace levin {

/// Whether a logger with `per_rank` writes a rank's values: those of an epoch's end, and of every every_n_steps-th step or, in
/// an evaluation, batch.
inline bool is_rank_row_due(const MetricRow& row, std::int64_t every_n_steps) {
  return row.epoch_end || (row.evaluation_batch.value_or(row.step) + 1) % every_n_steps == 0;
}

}  // namespace levin
