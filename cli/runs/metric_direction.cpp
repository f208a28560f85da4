#include "levin/cli/runs/metric_direction.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"

namespace levin::cli {
namespace {

const Mark kMode{"command line: --mode"};

/// What is found below these keys; null where one leads nowhere.
const Value* find_below(const Value& value, std::initializer_list<const char*> keys) {
  const Value* found = &value;
  for (const char* key : keys) found = found == nullptr ? nullptr : found->find(key);
  return found;
}

}  // namespace

std::optional<bool> monitored_as_larger(const Value& config, const std::string& metric) {
  const Value* const callbacks = find_below(config, {"trainer", "callbacks"});
  for (const Value& callback : callbacks != nullptr && callbacks->is_list() ? callbacks->as_list() : Value::List{}) {
    const Value* const monitor = find_below(callback, {"init_args", "monitor"});
    const Value* const mode = find_below(callback, {"init_args", "mode"});
    if (monitor == nullptr || *monitor != Value(metric) || mode == nullptr) continue;
    if (*mode == Value("max") || *mode == Value("min")) return *mode == Value("max");
  }
  return std::nullopt;
}

std::optional<bool> is_larger_better_in(const Value& config, const std::string& metric) {
  const std::optional<bool> monitored = monitored_as_larger(config, metric);
  return monitored ? monitored : is_larger_better(metric);
}

std::optional<bool> is_larger_better_in(const std::vector<RunRecord>& runs, const std::string& metric) {
  const RunRecord* first = nullptr;
  std::optional<bool> known;
  for (const RunRecord& run : runs) {
    if (!run.summary.metrics.contains(metric)) continue;
    const std::optional<bool> larger = monitored_as_larger(run.config, metric);
    if (!larger) continue;
    if (known && *known != *larger)
      throw ConfigError(kMode,
                        format("{} monitors {} with mode: {}, and {} with mode: {}: choose with --mode min or --mode max "
                               "which value is better",
                               one_line(first->name), quoted_text(metric), *known ? "max" : "min", one_line(run.name),
                               *larger ? "max" : "min"));
    if (!known) first = &run;
    known = larger;
  }
  return known ? known : is_larger_better(metric);
}

void ask_for_mode(const std::string& metric) {
  throw ConfigError(kMode, format("neither a callback that monitors {} nor its name says which value is better: choose it "
                                  "with --mode min or --mode max",
                                  quoted_text(metric)));
}

}  // namespace levin::cli
