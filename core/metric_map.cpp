#include <string>
#include <vector>

#include "levin/core/base/did_you_mean.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/error.h"
#include "levin/core/metric_row.h"

namespace levin {

std::vector<std::string> MetricMap::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : *this) names.push_back(name);
  return names;
}

double MetricMap::at(std::string_view name) const {
  const auto found = find(name);
  if (found != end()) return found->second;
  throw MisuseError(format("There is no metric '{}'.{} There are: {}.", name, nearest_metric(name, names()),
                           empty() ? "none" : quoted_list(names())));
}

}  // namespace levin
