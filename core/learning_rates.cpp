#include "levin/core/learning_rates.h"

#include <torch/optim/optimizer.h>

#include <map>
#include <set>

#include "levin/core/base/format.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/trainer.h"

namespace levin {

std::vector<NamedParameterGroup> named_parameter_groups(const Trainer& trainer) {
  std::vector<NamedParameterGroup> groups;
  std::map<std::string, int> seen;  // those without their own name, by class
  const auto add = [&](torch::optim::Optimizer& optimizer, const SchedulerConfig* scheduler) {
    std::string name = scheduler == nullptr ? "" : scheduler->name;
    if (name.empty()) {
      name = "lr-" + optimizer_class_name(optimizer);
      if (const int earlier = seen[name]++; earlier > 0) name += format("-{}", earlier);
    }
    const std::size_t count = optimizer.param_groups().size();
    for (std::size_t index = 0; index < count; ++index) {
      groups.push_back({count == 1 ? name : format("{}/pg{}", name, index + 1), &optimizer, index, scheduler});
    }
  };
  std::set<const torch::optim::Optimizer*> known;
  for (const SchedulerConfig& config : trainer.scheduler_configs()) {
    known.insert(&config.scheduler->optimizer());
    add(config.scheduler->optimizer(), &config);
  }
  for (const auto& optimizer : trainer.optimizers()) {
    if (known.insert(optimizer.get()).second) add(*optimizer, nullptr);
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
