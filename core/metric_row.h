#pragma once

#include <cstdint>

#include "levin/core/protocol/boundary.h"

namespace levin {

/// One row of metrics, as the loops hand it to loggers and callbacks.
struct MetricRow {
  Stage stage = Stage::kTrain;
  std::int64_t epoch = 0;
  std::int64_t step = 0;   ///< Lightning's x axis: optimizer steps done
  bool epoch_end = false;  ///< epoch values; false: values of one step
  MetricMap values = {};   ///< without step and epoch
};

}  // namespace levin
