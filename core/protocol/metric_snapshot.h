#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/protocol/boundary.h"
#include "levin/core/protocol/new_metrics.h"

namespace levin {

/// What users, monitors and bars see of the metrics.
struct MetricMaps {
  MetricMap callback;
  MetricMap logged;
  MetricMap progress_bar;
  MetricMap monitored;
};

/// A metric of the training epoch under way, with what one rank has recorded of it.
struct SavedMetric {
  detail::NewMetric metric;
  bool step_is_new = false;       ///< its step value is logged since the last step boundary
  bool step_is_unshared = false;  ///< it is logged since the last boundary that carries steps
  bool of_last_batch = false;     ///< its step value is of the batch in work, or of the last one
};

/// All that one rank has recorded of training, and what it shows: a run that goes on from it has the same rows and decisions.
struct MetricSnapshot {
  std::vector<SavedMetric> training;
  std::int64_t epoch_batches = 0;  ///< since the last boundary at the end of an epoch
  std::int64_t step_batches = 0;   ///< since the last one of a step
  MetricMaps maps;
};

}  // namespace levin
