#include "levin/callbacks/learning_rate_monitor.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/learning_rates.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

/// The momentum, or Adam's first beta, which takes its part; nothing for optimizers without either.
std::optional<double> momentum_of(const torch::optim::OptimizerParamGroup& group) {
  if (const auto betas = get_betas(group)) return betas->first;
  return get_momentum(group);
}

}  // namespace

LEVIN_REGISTER_CALLBACK(LearningRateMonitor, "Log learning rates");

void LearningRateMonitorOptions::declare(OptionList<LearningRateMonitorOptions>& options) {
  using O = LearningRateMonitorOptions;
  options.add(&O::logging_interval, "step or epoch; null: as often as each scheduler steps");
  options.add(&O::log_momentum, "Also log momentum, or the first beta of Adam");
  options.add(&O::log_weight_decay, "Also log weight decay");
  options.add(&O::prefix, "Put before each name, such as optim/");
}

void LearningRateMonitor::on_train_start(Trainer& trainer, Module&) {
  lrs_.clear();
  detail::require_logger("LearningRateMonitor", trainer);
  if (!options_.log_momentum) return;
  for (const auto& optimizer : trainer.optimizers()) {
    const auto& groups = optimizer->param_groups();
    if (std::all_of(groups.begin(), groups.end(), [](const auto& group) { return momentum_of(group).has_value(); })) continue;
    rank_zero_warn(format("LearningRateMonitor: {} has no momentum; 0 is logged for it.", optimizer_class_name(*optimizer)));
  }
}

void LearningRateMonitor::on_train_epoch_start(Trainer& trainer, Module&) {
  if (options_.logging_interval != Interval::kStep) log(trainer, Interval::kEpoch);
}

void LearningRateMonitor::on_train_batch_start(Trainer& trainer, Module& module, const Batch&, std::int64_t batch_idx) {
  if (options_.logging_interval != Interval::kEpoch && detail::begins_row(trainer, module, batch_idx))
    log(trainer, Interval::kStep);
}

void LearningRateMonitor::log(Trainer& trainer, Interval interval) {
  MetricMap row;
  for (const NamedParameterGroup& named : named_parameter_groups(trainer)) {
    if (named.scheduler != nullptr && !options_.logging_interval && named.scheduler->interval != interval) continue;
    const auto& group = named.optimizer->param_groups()[named.index];
    const std::string name = options_.prefix + named.name;
    row[name] = get_lr(group);
    constexpr std::string_view kFirst = "/pg1";
    if (name.ends_with(kFirst)) {
      // A group that is no longer alone has another name.
      auto alone = lrs_.extract(name.substr(0, name.size() - kFirst.size()));
      if (!alone.empty()) lrs_[name] = std::move(alone.mapped());
    }
    lrs_[name].push_back(row[name]);
    if (options_.log_momentum) row[name + "-momentum"] = momentum_of(group).value_or(0.0);
    if (options_.log_weight_decay) row[name + "-weight_decay"] = get_weight_decay(group).value_or(0.0);
  }
  if (row.empty()) return;
  for (const auto& [name, value] : row) trainer.set_callback_metric(name, value);
  trainer.log_to_loggers(row);
}

}  // namespace levin
