#include "levin/optim/optimizers.h"

#include <ATen/ops/zeros_like.h>

#include "levin/optim/weight_decay.h"

namespace levin {

void LionOptions::declare(OptionList<LionOptions>& options) {
  using O = LionOptions;
  options.add("lr", &O::lr, "Learning rate: a third to a tenth of AdamW's").min(0.0);
  options.add("betas", &O::betas, "Parts of the momentum in a step, and in the next momentum");
  options.add("weight_decay", &O::weight_decay, "Decoupled weight decay: three to ten times AdamW's").min(0.0);
  options.add("maximize", &O::maximize, "Go up instead of down");
}

StateFields LionState::fields() { return {{"exp_avg", &exp_avg}}; }

LionState Lion::first_state(const at::Tensor& parameter, const LionOptions&) const {
  return {.exp_avg = at::zeros_like(parameter)};
}

void Lion::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const LionOptions& options, LionState& state) {
  shrink(parameter, options.lr, options.weight_decay);
  parameter.sub_(state.exp_avg.lerp(gradient, 1 - options.betas.first).sign_(), options.lr);
  state.exp_avg.lerp_(gradient, 1 - options.betas.second);
}

}  // namespace levin
