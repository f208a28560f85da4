#include "levin/optim/optimizers.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "levin/optim/weight_decay.h"

namespace levin {

void NAdamOptions::declare(OptionList<NAdamOptions>& options) {
  using O = NAdamOptions;
  options.add("lr", &O::lr, "Learning rate").min(0.0);
  options.add("betas", &O::betas, "Decay of the averages of the gradient and of its square");
  options.add("eps", &O::eps, "Added to the denominator").min(0.0);
  options.add("weight_decay", &O::weight_decay, "L2 penalty, or decoupled weight decay").min(0.0);
  options.add("momentum_decay", &O::momentum_decay, "How fast the momentum comes to its full size").min(0.0);
  options.add("decoupled_weight_decay", &O::decoupled_weight_decay, "Weight decay as in AdamW");
  options.add("maximize", &O::maximize, "Go up instead of down");
}

StateFields NAdamState::fields() {
  return {{"step", &step}, {"mu_product", &mu_product}, {"exp_avg", &exp_avg}, {"exp_avg_sq", &exp_avg_sq}};
}

NAdamState NAdam::first_state(const at::Tensor& parameter, const NAdamOptions&) const {
  return {.exp_avg = at::zeros_like(parameter), .exp_avg_sq = at::zeros_like(parameter)};
}

void NAdam::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const NAdamOptions& options, NAdamState& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = decay_weights(parameter, gradient, options);
  const auto momentum = [&, first = beta1](double at) {
    return first * (1 - 0.5 * std::pow(0.96, at * options.momentum_decay));
  };
  const double mu = momentum(step);
  const double next_mu = momentum(step + 1);
  state.mu_product *= mu;
  state.exp_avg.lerp_(slope, 1 - beta1);
  state.exp_avg_sq.mul_(beta2).addcmul_(slope, slope, 1 - beta2);
  const at::Tensor denominator = state.exp_avg_sq.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps);
  parameter.addcdiv_(slope, denominator, -options.lr * (1 - mu) / (1 - state.mu_product));
  parameter.addcdiv_(state.exp_avg, denominator, -options.lr * next_mu / (1 - state.mu_product * next_mu));
}

}  // namespace levin
