#include "levin/core/learning_rates.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {

std::vector<std::vector<std::string>> learning_rate_names(const std::vector<MonitoredOptimizer>& optimizers) {
  std::map<std::string, int> seen;
  std::vector<std::vector<std::string>> names;
  for (const MonitoredOptimizer& optimizer : optimizers) {
    std::string name = optimizer.given_name;
    if (name.empty()) {
      name = "lr-" + optimizer.class_name;
      const int earlier = seen[optimizer.class_name]++;
      if (earlier > 0) name += format("-{}", earlier);
    }
    std::vector<std::string>& groups = names.emplace_back();
    for (std::size_t group = 1; group <= optimizer.num_groups; ++group) {
      groups.push_back(optimizer.num_groups == 1 ? name : format("{}/pg{}", name, group));
    }
  }
  return names;
}

std::vector<NamedParameterGroup> named_parameter_groups(const Trainer& trainer) {
  std::vector<std::pair<torch::optim::Optimizer*, const SchedulerConfig*>> watched;
  std::vector<MonitoredOptimizer> described;
  const auto watch = [&](torch::optim::Optimizer& optimizer, const SchedulerConfig* scheduler) {
    watched.emplace_back(&optimizer, scheduler);
    described.push_back(
        {optimizer_class_name(optimizer), optimizer.param_groups().size(), scheduler == nullptr ? "" : scheduler->name});
  };
  for (const SchedulerConfig& config : trainer.scheduler_configs()) watch(config.scheduler->optimizer(), &config);
  for (const auto& optimizer : trainer.optimizers()) {
    const bool seen =
        std::any_of(watched.begin(), watched.end(), [&](const auto& other) { return other.first == optimizer.get(); });
    if (!seen) watch(*optimizer, nullptr);
  }
  const auto names = learning_rate_names(described);
  std::vector<NamedParameterGroup> groups;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    for (std::size_t group = 0; group < names[i].size(); ++group)
      groups.push_back({names[i][group], watched[i].first, group, watched[i].second});
  }
  return groups;
}

MetricMap learning_rates(const Trainer& trainer) {
  MetricMap rates;
  for (const NamedParameterGroup& group : named_parameter_groups(trainer))
    rates[group.name] = get_lr(group.optimizer->param_groups()[group.index]);
  return rates;
}

}  // namespace levin
