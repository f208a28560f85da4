#include "levin/optim/optimizers.h"

#include <ATen/ops/zeros_like.h>

#include "levin/optim/weight_decay.h"

namespace levin {

void AdadeltaOptions::declare(OptionList<AdadeltaOptions>& options) {
  using O = AdadeltaOptions;
  options.add("lr", &O::lr, "Factor of each step").min(0.0);
  options.add("rho", &O::rho, "Decay of the averages of squared gradients and steps").min(0.0).max(1.0);
  options.add("eps", &O::eps, "Added to both averages").min(0.0);
  options.add("weight_decay", &O::weight_decay, "L2 penalty").min(0.0);
  options.add("maximize", &O::maximize, "Go up instead of down");
}

StateFields AdadeltaState::fields() { return {{"step", &step}, {"square_avg", &square_avg}, {"acc_delta", &acc_delta}}; }

AdadeltaState Adadelta::first_state(const at::Tensor& parameter, const AdadeltaOptions&) const {
  return {.square_avg = at::zeros_like(parameter), .acc_delta = at::zeros_like(parameter)};
}

void Adadelta::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const AdadeltaOptions& options,
                              AdadeltaState& state) {
  ++state.step;
  const at::Tensor slope = with_penalty(gradient, parameter, options.weight_decay);
  state.square_avg.mul_(options.rho).addcmul_(slope, slope, 1 - options.rho);
  const at::Tensor size = state.square_avg.add(options.eps).sqrt_();
  const at::Tensor delta = state.acc_delta.add(options.eps).sqrt_().div_(size).mul_(slope);
  state.acc_delta.mul_(options.rho).addcmul_(delta, delta, 1 - options.rho);
  parameter.sub_(delta, options.lr);
}

}  // namespace levin
