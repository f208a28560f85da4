#include "levin/core/loops/scheduler_runner.h"

#include <algorithm>

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

bool SchedulerRunner::is_due(const SchedulerConfig& config, Interval interval, bool on_metric) const {
  const std::int64_t done = (interval == Interval::kStep ? progress_.batch.batch_idx : progress_.epoch) + 1;
  return parts_.module->automatic_optimization() && config.scheduler->needs_metric() == on_metric &&
         config.interval == interval && done % config.frequency == 0;
}

bool SchedulerRunner::is_due(Interval interval, bool on_metric) const {
  return std::any_of(parts_.schedulers.begin(), parts_.schedulers.end(),
                     [&](const SchedulerConfig& config) { return is_due(config, interval, on_metric); });
}

void SchedulerRunner::step(Interval interval, bool on_metric) {
  for (SchedulerConfig& config : parts_.schedulers) {
    if (!is_due(config, interval, on_metric)) continue;
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
