#include "levin/core/engine/step/scheduler_runner.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/parts/epoch_plan.h"

namespace levin {

namespace {
std::string missing_monitor(const SchedulerConfig& config, const MetricMap& metrics) {
  const std::string available = join(metrics.names());
  return format("A learning-rate scheduler monitors '{}', which no rank has logged.{} Logged so far: {}.", config.monitor,
                nearest_metric(config.monitor, metrics.names()), available.empty() ? "nothing" : available);
}

/// "epoch", "2 optimizer steps"
std::string interval_text(const SchedulerConfig& config) {
  const std::string unit = config.interval == Interval::kEpoch ? "epoch" : "optimizer step";
  return config.frequency == 1 ? unit : counted(static_cast<std::size_t>(config.frequency), unit);
}

/// The option of a schedule that lies furthest ahead, and its step; nothing when it has no end.
std::optional<std::pair<std::string, std::int64_t>> furthest(const Value& state) {
  std::optional<std::pair<std::string, std::int64_t>> found;
  const auto look_at = [&](const std::string& name, const Value& step) {
    if (step.is_int() && (!found || step.as_int() > found->second)) found.emplace(name, step.as_int());
  };
  for (const char* name : {"total_steps", "T_max", "total_iters"}) {
    if (const Value* steps = state.find(name)) look_at(name, *steps);
  }
  const Value* epochs = state.find("epochs");
  const Value* each = state.find("steps_per_epoch");
  if (epochs != nullptr && each != nullptr && epochs->is_int() && each->is_int()) {
    look_at("epochs times steps_per_epoch", epochs->as_int() * each->as_int());
  }
  for (const char* name : {"milestones", "_milestones"}) {
    const Value* milestones = state.find(name);
    if (milestones == nullptr || !milestones->is_list()) continue;
    for (const Value& milestone : milestones->as_list()) look_at("last milestone", milestone);
  }
  return found;
}
}  // namespace

void warn_of_unreached_schedules(const RunParts& parts, const TrainingLength& length) {
  if (!parts.module->automatic_optimization()) return;
  for (const SchedulerConfig& config : parts.schedulers) {
    const Value state = config.scheduler->state_dict();
    const auto end = state.is_map() ? furthest(state) : std::nullopt;
    const auto steps = end ? length.schedule_steps(config.interval, config.frequency) : std::nullopt;
    if (!steps || *steps <= 0 || end->second <= *steps) continue;
    const bool by_epochs = config.interval == Interval::kEpoch;
    const auto by_step = length.schedule_steps(Interval::kStep, config.frequency);
    const bool means_steps = by_epochs && by_step && end->second <= *by_step;
    const LrScheduler& scheduler = *config.scheduler;
    rank_zero_warn(
        format("{} will not come to its end: its {} is {}, and training has {} of its steps, one after every {}. {}.",
               class_name_of(typeid(scheduler)), end->first, end->second, *steps, interval_text(config),
               means_steps ? "Set the scheduler's interval to step" : format("Train longer, or set it to {} at most", *steps)));
  }
}

bool SchedulerRunner::is_due(const SchedulerConfig& config, Interval interval, bool on_metric) const {
  const std::int64_t done = (interval == Interval::kStep ? progress_.batch.batch_idx : progress_.epoch) + 1;
  return parts_.module->automatic_optimization() && config.scheduler->needs_metric() == on_metric &&
         config.interval == interval && done % config.frequency == 0;
}

bool SchedulerRunner::is_due(Interval interval, bool on_metric) const {
  return std::any_of(parts_.schedulers.begin(), parts_.schedulers.end(),
                     [&](const SchedulerConfig& config) { return is_due(config, interval, on_metric); });
}

void SchedulerRunner::warn_of_monitors(const RunParts& parts, const MetricStore& metrics) {
  for (const SchedulerConfig& config : parts.schedulers) {
    if (!config.scheduler->needs_metric() || metrics.monitored(config.monitor)) continue;
    const std::string doubt = doubt_of_monitor("A learning-rate scheduler", config.monitor, metrics.callback_metrics().names());
    if (!doubt.empty()) Console::instance().warn_once(doubt, {}, Speaker::kRun);
  }
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
