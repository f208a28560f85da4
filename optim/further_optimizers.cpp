#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/optimizers.h"

// Optimizers that torch.optim does not have.
namespace levin {
namespace {

/// One norm over another; 1 where one of them is zero, as for weights that begin there. A tensor, so that a device is not
/// waited for.
at::Tensor ratio_of_norms(const at::Tensor& above, const at::Tensor& below) {
  return at::where(above.gt(0).logical_and_(below.gt(0)), above / below, at::ones_like(above));
}

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

template <class Options>
void declare_schedule_free(OptionList<Options>& options) {
  options.add(&Options::weight_decay, "L2 penalty of the weights at which gradients are taken").min(0.0);
  options.add(&Options::warmup_steps, "Steps in which the rate rises to lr").min(0);
  options.add(&Options::r, "Power of its number with which a step counts in the average");
  options.add(&Options::weight_lr_power, "Power of the largest rate so far with which a step counts in the average");
}

/// `momentum`: the part of x in the weights at which the next gradient is taken.
template <class Options>
void take_step(at::Tensor& parameter, const at::Tensor& direction, double momentum, const Options& options,
               ScheduleFreeState& state) {
  const auto step = static_cast<double>(++state.k);
  const double rate = options.lr * std::min(1.0, step / static_cast<double>(std::max<std::int64_t>(options.warmup_steps, 1)));
  state.lr_max = std::max(state.lr_max, rate);
  const double weight = std::pow(step, options.r) * std::pow(state.lr_max, options.weight_lr_power);
  state.weight_sum += weight;
  state.z.sub_(options.weight_decay == 0 ? direction : direction.add(parameter, options.weight_decay), rate);
  state.x.lerp_(state.z, state.weight_sum > 0 ? weight / state.weight_sum : 0.0);
  at::lerp_out(parameter, state.x, state.z, 1 - momentum);
}

}  // namespace

LEVIN_REGISTER_OPTIMIZER(Lion, "Steps by the sign of a momentum");

void LionOptions::declare(OptionList<LionOptions>& options) {
  using O = LionOptions;
  options.add(&O::lr, "Learning rate: a third to a tenth of AdamW's").min(0.0);
  options.add(&O::betas, "Parts of the momentum in a step, and in the next momentum");
  options.add(&O::weight_decay, "Decoupled weight decay: three to ten times AdamW's").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void Lion::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  parameter.mul_(1 - options.lr * options.weight_decay);
  parameter.sub_(state.exp_avg.lerp(gradient, 1 - options.betas.first).sign_(), options.lr);
  state.exp_avg.lerp_(gradient, 1 - options.betas.second);
}

LEVIN_REGISTER_OPTIMIZER(LAMB, "AdamW with steps in proportion to each parameter's size, for large batches");

void LAMBOptions::declare(OptionList<LAMBOptions>& options) {
  using O = LAMBOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  options.add(&O::weight_decay, "Decoupled weight decay, part of the step that is scaled").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void LAMB::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  state.exp_avg.lerp_(gradient, 1 - beta1);
  state.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  at::Tensor update = state.exp_avg_sq.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps).reciprocal_();
  update.mul_(state.exp_avg).div_(1 - std::pow(beta1, step)).add_(parameter, options.weight_decay);
  const at::Tensor trust = ratio_of_norms(at::linalg_vector_norm(parameter, 2), at::linalg_vector_norm(update, 2));
  parameter.sub_(update.mul_(trust), options.lr);
}

LEVIN_REGISTER_OPTIMIZER(LARS, "SGD with steps in proportion to each parameter's size, for large batches");

void LARSOptions::declare(OptionList<LARSOptions>& options) {
  using O = LARSOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::momentum, "Momentum").min(0.0);
  options.add(&O::weight_decay, "L2 penalty").min(0.0);
  options.add(&O::trust_coefficient, "Size of a step relative to the parameter's, at a rate of 1").above(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void LARS::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const at::Tensor size = at::linalg_vector_norm(parameter, 2);
  const at::Tensor slope = at::linalg_vector_norm(gradient, 2);
  const at::Tensor resistance = slope.add(size, options.weight_decay);
  const at::Tensor no_trust = size.eq(0).logical_or_(slope.eq(0));
  const at::Tensor trust = at::where(no_trust, at::ones_like(size), size / resistance * options.trust_coefficient);
  const at::Tensor update = gradient.add(parameter, options.weight_decay).mul_(trust);
  state.momentum_buffer.mul_(options.momentum).add_(update, options.lr);
  parameter.sub_(state.momentum_buffer);
}

LEVIN_REGISTER_OPTIMIZER(AdamWBf16, "AdamW with half the state, in bfloat16");

void AdamWBf16Options::declare(OptionList<AdamWBf16Options>& options) {
  using O = AdamWBf16Options;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  options.add(&O::weight_decay, "Decoupled weight decay").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

MomentsState AdamWBf16::first_state(const at::Tensor& parameter, const Options&) const {
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

LEVIN_REGISTER_OPTIMIZER(SGDScheduleFree, "Gradient descent that needs no schedule");
LEVIN_REGISTER_OPTIMIZER(AdamWScheduleFree, "AdamW that needs no schedule");

void SGDScheduleFreeOptions::declare(OptionList<SGDScheduleFreeOptions>& options) {
  using O = SGDScheduleFreeOptions;
  options.add(&O::lr, "Learning rate: larger than that of a schedule").min(0.0);
  options.add(&O::momentum, "How near to the average gradients are taken").min(0.0).max(1.0);
  declare_schedule_free(options);
}

ScheduleFreeState SGDScheduleFree::first_state(const at::Tensor& parameter, const Options&) const {
  return {.z = parameter.detach().clone(), .x = parameter.detach().clone()};
}

void SGDScheduleFree::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  take_step(parameter, gradient, options.momentum, options, state);
}

void AdamWScheduleFreeOptions::declare(OptionList<AdamWScheduleFreeOptions>& options) {
  using O = AdamWScheduleFreeOptions;
  options.add(&O::lr, "Learning rate: one to ten times that of a schedule").min(0.0);
  options.add(&O::betas, "How near to the average gradients are taken, and decay of the average of their squares");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  declare_schedule_free(options);
}

ScheduleFreeState AdamWScheduleFree::first_state(const at::Tensor& parameter, const Options&) const {
  return {.z = parameter.detach().clone(), .x = parameter.detach().clone(), .exp_avg_sq = at::zeros_like(parameter)};
}

void AdamWScheduleFree::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options,
                                       State& state) {
  const auto [beta1, beta2] = options.betas;
  state.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const double correction = 1 - std::pow(beta2, static_cast<double>(state.k + 1));
  take_step(parameter, gradient / state.exp_avg_sq.div(correction).sqrt_().add_(options.eps), beta1, options, state);
}

}  // namespace levin
