#include "levin/core/state/optimizers_at_start.h"

#include <utility>

namespace levin {

OptimizersAtStart::OptimizersAtStart(const RunParts& parts) : schedulers(states_of(parts.schedulers)) {
  for (const auto& optimizer : parts.optimizers) groups.push_back(optimizer->param_groups());
}

OptimizersAtStart::Scope::Scope(const RunParts& parts, const OptimizersAtStart* then) : parts_(parts) {
  if (then == nullptr) return;
  for (std::size_t index = 0; index < then->groups.size(); ++index) {
    std::vector<torch::optim::OptimizerParamGroup> groups = then->groups[index];
    now_.push_back(std::exchange(parts_.optimizers[index]->param_groups(), std::move(groups)));
  }
}

OptimizersAtStart::Scope::~Scope() {
  for (std::size_t index = 0; index < now_.size(); ++index) {
    parts_.optimizers[index]->param_groups() = std::move(now_[index]);
  }
}

}  // namespace levin
