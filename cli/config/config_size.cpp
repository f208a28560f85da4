#include "levin/cli/config/config_size.h"

#include "levin/core/base/format.h"

namespace levin::cli {

void ConfigSize::add(const Value& value, std::size_t level, const Mark& mark) {
  const bool is_container = value.is_list() || value.is_map();
  if (level + (is_container ? 1 : 0) > kMostLevels)
    throw ConfigError(mark, format("nested deeper than {} levels", kMostLevels));
  ++values_;
  if (values_ > kMostValues) throw ConfigError(mark, format("more than {} values, references unfolded", kMostValues));
  if (value.is_string()) bytes_ += value.as_string().size();
  if (bytes_ > kMostBytes) throw ConfigError(mark, format("texts of more than {} bytes, references unfolded", kMostBytes));
  if (value.is_list()) {
    for (const Value& element : value.as_list()) add(element, level + 1, mark);
  } else if (value.is_map()) {
    for (const auto& entry : value.as_map()) add(entry.second, level + 1, mark);
  }
}

}  // namespace levin::cli
