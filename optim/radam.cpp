#include "levin/optim/optimizers.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "levin/optim/weight_decay.h"

namespace levin {

void RAdamOptions::declare(OptionList<RAdamOptions>& options) {
  using O = RAdamOptions;
  options.add("lr", &O::lr, "Learning rate").min(0.0);
  options.add("betas", &O::betas, "Decay of the averages of the gradient and of its square");
  options.add("eps", &O::eps, "Added to the denominator").min(0.0);
  options.add("weight_decay", &O::weight_decay, "L2 penalty, or decoupled weight decay").min(0.0);
  options.add("decoupled_weight_decay", &O::decoupled_weight_decay, "Weight decay as in AdamW");
  options.add("maximize", &O::maximize, "Go up instead of down");
}

StateFields RAdamState::fields() { return {{"step", &step}, {"exp_avg", &exp_avg}, {"exp_avg_sq", &exp_avg_sq}}; }

RAdamState RAdam::first_state(const at::Tensor& parameter, const RAdamOptions&) const {
  return {.exp_avg = at::zeros_like(parameter), .exp_avg_sq = at::zeros_like(parameter)};
}

void RAdam::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const RAdamOptions& options, RAdamState& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = decay_weights(parameter, gradient, options);
  state.exp_avg.lerp_(slope, 1 - beta1);
  state.exp_avg_sq.mul_(beta2).addcmul_(slope, slope, 1 - beta2);
  const double correction2 = 1 - std::pow(beta2, step);
  const double step_size = options.lr / (1 - std::pow(beta1, step));
  // How many gradients the average of squares is made of, in effect, and when there are all that it forgets none of.
  const double longest = 2 / (1 - beta2) - 1;
  const double length = longest - 2 * step * std::pow(beta2, step) / correction2;
  if (length <= 5) {
    parameter.add_(state.exp_avg, -step_size);
    return;
  }
  const double rectification = std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
  parameter.addcdiv_(state.exp_avg, state.exp_avg_sq.sqrt().add_(options.eps),
                     -step_size * rectification * std::sqrt(correction2));
}

}  // namespace levin
