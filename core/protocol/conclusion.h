#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "levin/core/protocol/exchanged_metric.h"
#include "levin/core/protocol/frame.h"
#include "levin/core/protocol/metric_table.h"

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
