#include "levin/optim/optimizers.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "levin/optim/weight_decay.h"

namespace levin {

void AdamaxOptions::declare(OptionList<AdamaxOptions>& options) {
  using O = AdamaxOptions;
  options.add("lr", &O::lr, "Learning rate").min(0.0);
  options.add("betas", &O::betas, "Decay of the average of the gradient, and of its largest size");
  options.add("eps", &O::eps, "Added to the size of the gradient").min(0.0);
  options.add("weight_decay", &O::weight_decay, "L2 penalty").min(0.0);
  options.add("maximize", &O::maximize, "Go up instead of down");
}

StateFields AdamaxState::fields() { return {{"step", &step}, {"exp_avg", &exp_avg}, {"exp_inf", &exp_inf}}; }

AdamaxState Adamax::first_state(const at::Tensor& parameter, const AdamaxOptions&) const {
  return {.exp_avg = at::zeros_like(parameter), .exp_inf = at::zeros_like(parameter)};
}

void Adamax::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const AdamaxOptions& options,
                            AdamaxState& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = with_penalty(gradient, parameter, options.weight_decay);
  state.exp_avg.lerp_(slope, 1 - beta1);
  at::maximum_out(state.exp_inf, state.exp_inf.mul_(beta2), slope.abs().add_(options.eps));
  parameter.addcdiv_(state.exp_avg, state.exp_inf, -options.lr / (1 - std::pow(beta1, step)));
}

}  // namespace levin
