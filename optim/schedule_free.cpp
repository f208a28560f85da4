#include "levin/optim/schedule_free.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "levin/core/optimizers/optimizer_factory.h"

namespace levin {

namespace {

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
