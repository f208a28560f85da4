#include "levin/callbacks/learning_rate_monitor.h"

#include <torch/optim/optimizer.h>

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

/// The momentum, or Adam's first beta, which takes its part; nothing for optimizers without either.
std::optional<double> momentum_of(const torch::optim::OptimizerParamGroup& group) {
  if (const auto betas = get_betas(group)) return betas->first;
  return get_momentum(group);
}

/// True when the step that this batch belongs to writes step values to the loggers.
bool step_row_is_due(const Trainer& trainer, const Module& module) {
  const std::int64_t every = trainer.options().step_row_interval();
  // With manual optimization a batch may take several optimizer steps, and rows count batches.
  const std::int64_t step = module.automatic_optimization() ? trainer.global_step() : trainer.total_batch_idx();
  return every > 0 && ((step + 1) % every == 0 || trainer.should_stop());
}

}  // namespace

void LearningRateMonitorOptions::declare(OptionList<LearningRateMonitorOptions>& options) {
  using O = LearningRateMonitorOptions;
  options.add("logging_interval", &O::logging_interval, "step or epoch; null: as often as each scheduler steps");
  options.add("log_momentum", &O::log_momentum, "Also log momentum, or the first beta of Adam");
  options.add("log_weight_decay", &O::log_weight_decay, "Also log weight decay");
}

LearningRateMonitor::LearningRateMonitor(LearningRateMonitorOptions options)
    : options_(checked("LearningRateMonitor", options)) {}

void LearningRateMonitor::on_train_start(Trainer& trainer, Module&) {
  lrs_.clear();
  if (trainer.loggers().empty() && !trainer.options().fast_dev_run) {
    throw ConfigError(
        "LearningRateMonitor has nowhere to write to: the Trainer has no logger. Set trainer.logger, or remove it.");
  }
  if (!options_.log_momentum) return;
  for (const auto& optimizer : trainer.optimizers()) {
    const auto& groups = optimizer->param_groups();
    if (std::all_of(groups.begin(), groups.end(), [](const auto& group) { return momentum_of(group).has_value(); })) continue;
    rank_zero_warn(format("LearningRateMonitor: {} has no momentum; 0 is logged for it.", optimizer_class_name(*optimizer)));
  }
}

void LearningRateMonitor::on_train_epoch_start(Trainer& trainer, Module&) {
  if (options_.logging_interval != Interval::kStep)
    log(trainer, options_.logging_interval ? std::nullopt : std::optional(Interval::kEpoch));
}

void LearningRateMonitor::on_train_batch_start(Trainer& trainer, Module& module, const Batch&, std::int64_t batch_idx) {
  if (options_.logging_interval == Interval::kEpoch || !step_row_is_due(trainer, module)) return;
  // While gradients accumulate, several batches belong to one step.
  if (batch_idx % trainer.accumulate_grad_batches() != 0 && module.automatic_optimization()) return;
  log(trainer, options_.logging_interval ? std::nullopt : std::optional(Interval::kStep));
}

void LearningRateMonitor::log(Trainer& trainer, std::optional<Interval> interval) {
  MetricMap row;
  for (const NamedParameterGroup& named : named_parameter_groups(trainer)) {
    if (named.scheduler != nullptr && interval && named.scheduler->interval != interval) continue;
    const auto& group = named.optimizer->param_groups()[named.index];
    row[named.name] = get_lr(group);
    lrs_[named.name].push_back(row[named.name]);
    if (options_.log_momentum) row[named.name + "-momentum"] = momentum_of(group).value_or(0.0);
    if (options_.log_weight_decay) row[named.name + "-weight_decay"] = get_weight_decay(group).value_or(0.0);
  }
  if (row.empty()) return;
  for (const auto& [name, value] : row) trainer.set_callback_metric(name, value);
  trainer.log_to_loggers(row);
}

}  // namespace levin
