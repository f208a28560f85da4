#pragma once

#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// What validate() and test() print: a table with a row a metric and a column a loader, and below it each metric that is a
/// matrix, such as a confusion matrix.
std::string evaluation_report(Stage stage, const std::vector<MetricMap>& results);

}  // namespace levin
