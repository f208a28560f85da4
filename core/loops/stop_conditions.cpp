#include "levin/core/loops/stop_conditions.h"

#include "levin/core/base/format.h"

namespace levin {

bool StopConditions::stopping() const {
  return stop_.agreed() && progress_.epoch >= options_.min_epochs.value_or(0) &&
         progress_.global_step >= options_.min_steps.value_or(0);
}

bool StopConditions::ends_epoch() const { return steps_are_done() || stopping(); }

std::optional<std::string> StopConditions::reason(const EpochPlan& plan) const {
  if (plan.known() && plan.iterations() == 0) return "no training batches";
  if (stopping()) return stop_.explain(world_size_);
  if (steps_are_done()) return format("max_steps={} reached", options_.max_steps);
  const std::int64_t max_epochs = options_.max_epochs.value_or(-1);
  if (max_epochs >= 0 && progress_.epoch >= max_epochs) return format("max_epochs={} reached", max_epochs);
  return std::nullopt;
}

}  // namespace levin
