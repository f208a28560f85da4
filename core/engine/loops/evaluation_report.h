#pragma once

#include <string>
#include <vector>

#include "levin/core/protocol/boundary.h"

namespace levin {

/// The table that validate() and test() print: a row a metric, a column a loader.
std::string evaluation_report(Stage stage, const std::vector<MetricMap>& results);

}  // namespace levin
