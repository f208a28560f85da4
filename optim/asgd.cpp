#include "levin/optim/optimizers.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "levin/optim/weight_decay.h"

namespace levin {

void ASGDOptions::declare(OptionList<ASGDOptions>& options) {
  using O = ASGDOptions;
  options.add("lr", &O::lr, "Learning rate at the beginning").min(0.0);
  options.add("lambd", &O::lambd, "Decay of the weights, and of the rate");
  options.add("alpha", &O::alpha, "Power of the decay of the rate");
  options.add("t0", &O::t0, "Step from which weights are averaged");
  options.add("weight_decay", &O::weight_decay, "L2 penalty").min(0.0);
  options.add("maximize", &O::maximize, "Go up instead of down");
}

StateFields ASGDState::fields() { return {{"step", &step}, {"eta", &eta}, {"mu", &mu}, {"ax", &ax}}; }

ASGDState ASGD::first_state(const at::Tensor& parameter, const ASGDOptions& options) const {
  return {.eta = options.lr, .ax = at::zeros_like(parameter)};
}

void ASGD::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const ASGDOptions& options, ASGDState& state) {
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = with_penalty(gradient, parameter, options.weight_decay);
  parameter.mul_(1 - options.lambd * state.eta).sub_(slope, state.eta);
  if (state.mu == 1.0) {
    state.ax.copy_(parameter);
  } else {
    state.ax.add_(parameter.sub(state.ax), state.mu);
  }
  state.eta = options.lr / std::pow(1 + options.lambd * options.lr * step, options.alpha);
  state.mu = 1 / std::max(1.0, step - options.t0);
}

}  // namespace levin
