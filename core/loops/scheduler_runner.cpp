#include "levin/core/loops/scheduler_runner.h"

#include "levin/core/base/format.h"
#include "levin/core/base/join.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"

namespace levin {

namespace {
std::string missing_monitor(const SchedulerConfig& config, const MetricMap& metrics) {
  const std::string available = join(metrics, ", ", &MetricMap::value_type::first);
  return format("A learning-rate scheduler monitors '{}', which no rank has logged. Logged so far: {}.", config.monitor,
                available.empty() ? "nothing" : available);
}
}  // namespace

void SchedulerRunner::step(Interval interval, bool on_metric) {
  if (!parts_.module->automatic_optimization()) return;
  const std::int64_t done = (interval == Interval::kStep ? progress_.batch.batch_idx : progress_.epoch) + 1;
  for (SchedulerConfig& config : parts_.schedulers) {
    if (config.scheduler->needs_metric() != on_metric || config.interval != interval || done % config.frequency != 0) continue;
    std::optional<double> metric;
    if (on_metric) {
      metric = metrics_.monitored(config.monitor);
      if (!metric) {
        const std::string message = missing_monitor(config, metrics_.callback_metrics());
        if (config.strict) throw MisuseError(message + " Set the scheduler's strict to false to skip it until the key exists.");
        rank_zero_warn(message + " The learning rate stays as it is.");
        continue;
      }
    }
    hooks_.module(Hook::kLrSchedulerStep, &Module::lr_scheduler_step, *config.scheduler, metric);
  }
}

}  // namespace levin
