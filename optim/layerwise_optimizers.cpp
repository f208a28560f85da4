#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/optimizers.h"

// Optimizers whose steps are in proportion to the size of each parameter.
namespace levin {

namespace {

/// One norm over another; 1 where one of them is zero, as for weights that begin there. A tensor, so that a device is not
/// waited for.
at::Tensor ratio_of_norms(const at::Tensor& above, const at::Tensor& below) {
  return at::where(above.gt(0).logical_and_(below.gt(0)), above / below, at::ones_like(above));
}

}  // namespace

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

}  // namespace levin
