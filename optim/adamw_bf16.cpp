#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <mutex>

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/optimizers.h"

namespace levin {

namespace {

/// Random numbers of a step, the same on every rank and in a run that resumes, so that ranks keep equal weights. The generators
/// that modules draw from stay as they are.
at::Generator generator_of_step(const at::Device& device, std::int64_t step) {
  at::Generator global = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(global.mutex());
  at::Generator generator = global.clone();
  generator.set_current_seed(static_cast<std::uint64_t>(step));
  return generator;
}

/// Writes float32 values as bfloat16, rounded up or down by chance, so that each is right on average: bfloat16 has the first 16
/// bits of float32, and noise in the other 16 carries over as often as they are large.
void round_stochastically(at::Tensor& target, const at::Tensor& values, const at::Generator& generator) {
  constexpr std::int64_t kLostValues = 1 << 16;
  const at::Tensor noise = at::randint(kLostValues, values.sizes(), generator, values.options().dtype(at::kInt));
  target.copy_(noise.add_(values.view(at::kInt)).bitwise_and_(-kLostValues).view(at::kFloat));
}

}  // namespace

LEVIN_REGISTER_OPTIMIZER(AdamWBf16, "AdamW with half the state, in bfloat16");

void AdamWBf16Options::declare(OptionList<AdamWBf16Options>& options) {
  using O = AdamWBf16Options;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  options.add(&O::weight_decay, "Decoupled weight decay").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

AdamWBf16State AdamWBf16::first_state(const at::Tensor& parameter, const Options&) const {
  const auto options = parameter.options().dtype(at::kBFloat16).requires_grad(false);
  return {.exp_avg = at::zeros_like(parameter, options), .exp_avg_sq = at::zeros_like(parameter, options)};
}

void AdamWBf16::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = gradient.to(at::kFloat);
  const at::Tensor mean = state.exp_avg.to(at::kFloat).lerp_(slope, 1 - beta1);
  const at::Tensor mean_of_squares = state.exp_avg_sq.to(at::kFloat).mul_(beta2).addcmul_(slope, slope, 1 - beta2);
  const at::Generator generator = generator_of_step(parameter.device(), state.step);
  round_stochastically(state.exp_avg, mean, generator);
  round_stochastically(state.exp_avg_sq, mean_of_squares, generator);
  parameter.mul_(1 - options.lr * options.weight_decay);
  const at::Tensor size = mean_of_squares.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps);
  parameter.addcdiv_(mean, size, -options.lr / (1 - std::pow(beta1, step)));
}

}  // namespace levin
