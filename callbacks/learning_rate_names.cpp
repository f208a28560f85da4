#include "levin/callbacks/learning_rate_names.h"

#include <map>

#include "levin/core/base/format.h"

namespace levin::detail {

std::vector<std::vector<std::string>> learning_rate_names(const std::vector<MonitoredOptimizer>& optimizers) {
  std::map<std::string, int> seen;
  std::vector<std::vector<std::string>> names;
  for (const MonitoredOptimizer& optimizer : optimizers) {
    std::string name = optimizer.given_name;
    if (name.empty()) {
      name = "lr-" + optimizer.class_name;
      const int earlier = seen[optimizer.class_name]++;
      if (earlier > 0) name += format("-{}", earlier);
    }
    std::vector<std::string>& groups = names.emplace_back();
    for (std::size_t group = 1; group <= optimizer.num_groups; ++group) {
      groups.push_back(optimizer.num_groups == 1 ? name : format("{}/pg{}", name, group));
    }
  }
  return names;
}

}  // namespace levin::detail
