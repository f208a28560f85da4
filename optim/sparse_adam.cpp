#include <ATen/ops/sparse_coo_tensor.h>

#include <cmath>

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/optimizers.h"

namespace levin {

LEVIN_REGISTER_OPTIMIZER(SparseAdam, "Adam for sparse gradients");

void SparseAdamOptions::declare(OptionList<SparseAdamOptions>& options) {
  using O = SparseAdamOptions;
  options.add(&O::lr, "Learning rate").above(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").above(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void SparseAdam::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  // Each place once, as the step is not linear in the gradient.
  const at::Tensor slope = gradient.coalesce();
  const at::Tensor values = slope._values();
  if (values.numel() == 0) return;
  const auto at_its_places = [&](const at::Tensor& of_places) {
    return at::sparse_coo_tensor(slope._indices(), of_places, slope.sizes());
  };
  /// Moves an average towards new values, and returns what it has become at their places.
  const auto averaged = [&](at::Tensor& average, const at::Tensor& news, double beta) {
    const at::Tensor old = average.sparse_mask(slope)._values();
    const at::Tensor change = news.sub(old).mul_(1 - beta);
    average.add_(at_its_places(change));
    return old.add(change);
  };
  const at::Tensor mean = averaged(state.exp_avg, values, beta1);
  const at::Tensor mean_of_squares = averaged(state.exp_avg_sq, values.square(), beta2);
  const double rate = options.lr * std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
  parameter.add_(at_its_places(mean.div(mean_of_squares.sqrt().add_(options.eps)).mul_(-rate)));
}

}  // namespace levin
