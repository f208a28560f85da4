#include "levin/core/engine/step/gradient_scaler.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

constexpr double kGrowth = 2.0;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kBatchesToGrow = 2000;

/// Divides the gradients in place. True when one of them is not finite.
bool divide(std::vector<at::Tensor> gradients, double factor) {
  const auto options = gradients.front().options().dtype(at::kFloat);
  at::Tensor found = at::zeros({1}, options);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, at::full({1}, 1.0 / factor, options));
  return found.item<float>() != 0;
}

}  // namespace

void GradientScaler::begin_batch() {
  if (!std::exchange(stepped_, false)) return;
  if (std::exchange(overflowed_, false)) {
    factor_ *= kBackoff;
    good_batches_ = 0;
  } else if (++good_batches_ == kBatchesToGrow) {
    factor_ *= kGrowth;
    good_batches_ = 0;
  }
}

at::Tensor GradientScaler::scale(const at::Tensor& loss) const {
  if (!enabled_) return loss;
  // The factor alone may be more than 16 bits hold.
  return (loss.scalar_type() == at::kHalf ? loss.to(at::kFloat) : loss) * factor_;
}

void GradientScaler::unscale(torch::optim::Optimizer& optimizer) {
  if (!enabled_) return;
  const at::NoGradGuard no_grad;
  // The kernel takes tensors of one device and type.
  std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor>> alike;
  for (at::Tensor& parameter : all_parameters(optimizer)) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (gradient.is_sparse()) gradient = gradient.coalesce();
    alike[{gradient.device().str(), gradient.scalar_type()}].push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  bool overflows = false;
  for (auto& [kind, gradients] : alike) overflows |= divide(gradients, factor_);
  stepped_ = true;
  overflowed_ |= overflows;
  if (overflows) zero_grad(optimizer);
}

Value GradientScaler::state() const {
  if (!enabled_) return {};
  // A checkpoint between two batches holds what the next would begin with.
  GradientScaler next = *this;
  next.begin_batch();
  return Value(Value::Map{{"scale", Value(next.factor_)}, {"_growth_tracker", Value(next.good_batches_)}});
}

void GradientScaler::load_state(const Value& state) {
  factor_ = state.at("scale").as_double();
  good_batches_ = state.at("_growth_tracker").as_int();
}

}  // namespace levin
