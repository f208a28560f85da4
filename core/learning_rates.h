#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace levin {

/// What decides how an optimizer's rates are called.
struct MonitoredOptimizer {
  std::string class_name;      ///< "SGD"
  std::size_t num_groups = 1;  ///< parameter groups
  std::string given_name;      ///< the scheduler's name; empty: lr-<class>
};

/// The names of each optimizer's parameter groups.
std::vector<std::vector<std::string>> learning_rate_names(const std::vector<MonitoredOptimizer>& optimizers);

}  // namespace levin
