#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace levin::detail {

/// What decides how an optimizer's rates are called.
struct MonitoredOptimizer {
  std::string class_name;      ///< "SGD"
  std::size_t num_groups = 1;  ///< parameter groups
  std::string given_name;      ///< the scheduler's name; empty: lr-<class>
};

/// Lightning's names, one for each parameter group: "lr-SGD", "lr-SGD/pg1" with several groups, "lr-SGD-1" for the second
/// optimizer of a class. A given name stands as it is.
std::vector<std::vector<std::string>> learning_rate_names(const std::vector<MonitoredOptimizer>& optimizers);

}  // namespace levin::detail
