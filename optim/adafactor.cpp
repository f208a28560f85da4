#include "levin/optim/optimizers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "levin/optim/weight_decay.h"

namespace levin {
namespace {

double resolution(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kHalf:
      return std::numeric_limits<c10::Half>::epsilon();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::epsilon();
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

double root_mean_square(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2).item<double>() / std::sqrt(static_cast<double>(tensor.numel()));
}

at::Tensor mean_square(const at::Tensor& gradient, std::int64_t dimension) {
  const at::Tensor norm = at::linalg_vector_norm(gradient, 2, at::IntArrayRef{dimension}, /*keepdim=*/true);
  return norm.square().div_(static_cast<double>(gradient.size(dimension)));
}

at::Tensor zeros_with_one(const at::Tensor& parameter, std::int64_t dimension) {
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  sizes[static_cast<std::size_t>(parameter.dim() + dimension)] = 1;
  return at::zeros(sizes, parameter.options().requires_grad(false));
}

}  // namespace

void AdafactorOptions::declare(OptionList<AdafactorOptions>& options) {
  using O = AdafactorOptions;
  options.add("lr", &O::lr, "Largest learning rate").min(0.0);
  options.add("beta2_decay", &O::beta2_decay, "Power with which new squares count less").max(0.0);
  options.add("eps", &O::eps, "Smallest root of a square (null: the resolution of the type), and smallest size of parameters");
  options.add("d", &O::d, "Root mean square that an update is clipped to").min(1.0);
  options.add("weight_decay", &O::weight_decay, "Decoupled weight decay").min(0.0);
  options.add("maximize", &O::maximize, "Go up instead of down");
  options.rule({"eps"}, [](const O& adafactor) {
    const auto& [root, size] = adafactor.eps;
    return root.value_or(0) >= 0 && size >= 0 ? "" : "eps must be two numbers that are at least 0";
  });
}

StateFields AdafactorState::fields() {
  return {{"step", &step}, {"row_var", OwnShape{&row_var}}, {"col_var", OwnShape{&col_var}}, {"variance", &variance}};
}

AdafactorState Adafactor::first_state(const at::Tensor& parameter, const AdafactorOptions&) const {
  if (parameter.dim() < 2) return {.variance = at::zeros_like(parameter)};
  return {.row_var = zeros_with_one(parameter, -1), .col_var = zeros_with_one(parameter, -2)};
}

void Adafactor::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const AdafactorOptions& options,
                               AdafactorState& state) {
  if (parameter.numel() == 0) return;
  const auto step = static_cast<double>(++state.step);
  const double smallest = std::get<0>(options.eps).value_or(resolution(parameter.scalar_type()));
  const double part_of_new = std::pow(step, options.beta2_decay);
  const double rate =
      std::max(std::get<1>(options.eps), root_mean_square(parameter)) * std::min(options.lr, 1 / std::sqrt(step));
  shrink(parameter, options.lr, options.weight_decay);
  at::Tensor estimate;
  if (parameter.dim() > 1) {
    state.row_var.lerp_(mean_square(gradient, -1), part_of_new);
    state.col_var.lerp_(mean_square(gradient, -2), part_of_new);
    estimate = at::matmul(state.row_var, state.col_var);
    estimate.div_(state.row_var.mean(-2, /*keepdim=*/true).clamp_min_(smallest));
  } else {
    state.variance.lerp_(gradient * gradient, part_of_new);
    estimate = state.variance.clone();
  }
  const at::Tensor update = estimate.clamp_min_(smallest * smallest).rsqrt_().mul_(gradient);
  parameter.sub_(update, rate / std::max(1.0, root_mean_square(update) / options.d));
}

}  // namespace levin
