#include "levin/cli/report/metric_mode.h"

#include "levin/core/base/metric_names.h"

namespace levin::cli {

std::optional<bool> larger_is_better(const Value& config, std::string_view metric) {
  const Value* const trainer = config.is_map() ? config.find("trainer") : nullptr;
  const Value* const callbacks = trainer != nullptr && trainer->is_map() ? trainer->find("callbacks") : nullptr;
  for (const Value& callback : callbacks != nullptr && callbacks->is_list() ? callbacks->as_list() : Value::List{}) {
    const Value* const options = callback.is_map() ? callback.find("init_args") : nullptr;
    if (options == nullptr || !options->is_map()) continue;
    const Value* const monitor = options->find("monitor");
    const Value* const mode = options->find("mode");
    const bool is_its = monitor != nullptr && monitor->is_string() && monitor->as_string() == metric;
    if (is_its && mode != nullptr && mode->is_string()) return mode->as_string() == "max";
  }
  return is_larger_better(metric);
}

}  // namespace levin::cli
