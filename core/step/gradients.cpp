#include "levin/core/step/gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

using Gradients = std::vector<at::Tensor>;

Gradients gradients_of(const torch::optim::Optimizer& optimizer) {
  Gradients gradients;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  return gradients;
}

/// True for dense gradients on one device, of types whose norms are not rounded to few digits.
bool are_alike(const Gradients& gradients) {
  return std::ranges::all_of(gradients, [&](const at::Tensor& gradient) {
    const at::ScalarType type = gradient.scalar_type();
    return gradient.layout() == at::kStrided && (type == at::kFloat || type == at::kDouble) &&
           gradient.device() == gradients.front().device();
  });
}

/// As torch's clip_grad_norm_ adds it to the norm.
constexpr double kSmallestNorm = 1e-6;

void clip_norm(Gradients& gradients, double value, std::vector<at::Tensor> norms) {
  std::erase_if(norms, [](const at::Tensor& norm) { return !norm.defined(); });
  if (!gradients.front().is_cpu()) {
    // The host does not wait for the device's norm.
    const at::Tensor norm = at::linalg_vector_norm(at::stack(norms), 2);
    at::_foreach_mul_(gradients, (value / (norm + kSmallestNorm)).clamp_max(1.0));
    return;
  }
  double squares = 0;
  for (const at::Tensor& norm : norms) squares += std::pow(norm.item<double>(), 2);
  const double coefficient = value / (std::sqrt(squares) + kSmallestNorm);
  // Gradients within the norm are unchanged. With a NaN among them, all become NaN.
  if (!(coefficient >= 1.0)) at::_foreach_mul_(gradients, coefficient);
}

constexpr double kGrowth = 2.0;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kBatchesToGrow = 2000;

bool divide(std::vector<at::Tensor> gradients, double factor) {
  const auto options = gradients.front().options().dtype(at::kFloat);
  at::Tensor found = at::zeros({1}, options);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, at::full({1}, 1.0 / factor, options));
  return found.item<float>() != 0;
}

}  // namespace

void scale_gradients(torch::optim::Optimizer& optimizer, double factor) {
  const at::NoGradGuard no_grad;
  Gradients gradients = gradients_of(optimizer);
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor);
}

std::vector<at::Tensor> norms_of_gradients(const std::vector<at::Tensor>& parameters, double norm_type) {
  const at::NoGradGuard no_grad;
  Gradients gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  std::vector<at::Tensor> norms;
  if (are_alike(gradients)) {
    if (!gradients.empty()) norms = at::_foreach_norm(gradients, norm_type);
  } else {
    for (const at::Tensor& gradient : gradients) {
      const at::Tensor values = gradient.is_sparse() ? gradient.coalesce()._values() : gradient;
      const bool is_short = values.is_floating_point() && values.element_size() < 4;
      norms.push_back(at::linalg_vector_norm(is_short ? values.to(at::kFloat) : values, norm_type, at::OptionalIntArrayRef()));
    }
  }
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    if (!parameters[index].grad().defined()) norms.insert(norms.begin() + static_cast<std::ptrdiff_t>(index), at::Tensor());
  }
  return norms;
}

GradientNorms::Versions GradientNorms::versions_of(const std::vector<at::Tensor>& parameters) {
  Versions versions;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    versions.emplace_back(gradient.getIntrusivePtr(), gradient.defined() ? gradient._version() : 0);
  }
  return versions;
}

const GradientNorms::Known& GradientNorms::now(const torch::optim::Optimizer& optimizer) {
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  Versions versions = versions_of(parameters);
  Known& known = known_[&optimizer];
  if (known.versions != versions) {
    known.norms = norms_of_gradients(parameters, 2);
    known.versions = std::move(versions);
  }
  return known;
}

const std::vector<at::Tensor>& GradientNorms::before_clipping(const torch::optim::Optimizer& optimizer) {
  const auto known = known_.find(&optimizer);
  const bool are_clipped = known != known_.end() && !known->second.clipped.empty() &&
                           known->second.clipped == versions_of(all_parameters(optimizer));
  return are_clipped ? known->second.norms : now(optimizer).norms;
}

void GradientNorms::clipped(const torch::optim::Optimizer& optimizer) {
  known_[&optimizer].clipped = versions_of(all_parameters(optimizer));
}

void StepLosses::add(const at::Tensor& loss, double weight) {
  if (!kept_) return;
  // Bounds memory for a module that never lets levin take its optimizer's step.
  constexpr std::size_t kMost = 256;
  if (added_.size() >= kMost) restart(total());
  added_.emplace_back(loss.detach(), weight);
}

StepLoss StepLosses::total() const {
  StepLoss total = earlier_;
  at::Tensor on_device;
  for (const auto& [loss, weight] : added_) {
    total.weight += weight;
    if (loss.is_cpu()) {
      total.sum += loss.item<double>() * weight;
    } else {
      const at::Tensor weighted = loss.to(at::kDouble) * weight;
      on_device = on_device.defined() ? on_device + weighted : weighted;
    }
  }
  if (on_device.defined()) total.sum += on_device.item<double>();
  return total;
}

void clip_gradients(torch::optim::Optimizer& optimizer, double value, GradientClipAlgorithm algorithm, GradientNorms* norms) {
  // Refuses NaN, too.
  if (!(value >= 0)) {
    throw MisuseError(format("Gradients cannot be clipped to {}: give a norm or a value above 0; 0 clips nothing.", value));
  }
  if (value == 0) return;
  const at::NoGradGuard no_grad;
  Gradients gradients = gradients_of(optimizer);
  if (gradients.empty()) return;
  const bool alike = are_alike(gradients);
  if (algorithm == GradientClipAlgorithm::kNorm) {
    GradientNorms unknown;
    GradientNorms& known = norms == nullptr ? unknown : *norms;
    if (alike) {
      clip_norm(gradients, value, known.to_clip(optimizer));
      return known.clipped(optimizer);
    }
    torch::nn::utils::clip_grad_norm_(all_parameters(optimizer), value);
  } else if (alike && !gradients.front().is_cpu()) {
    at::_foreach_clamp_min_(gradients, -value);
    at::_foreach_clamp_max_(gradients, value);
  } else {
    // One pass over memory for each gradient, which matters more on the CPU than the number of calls.
    for (at::Tensor& gradient : gradients) gradient.clamp_(-value, value);
  }
}

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
  // The factor alone may exceed the range of 16-bit floats.
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
  // A checkpoint between two batches holds the state with which the next one begins.
  GradientScaler next = *this;
  next.begin_batch();
  return Value(Value::Map{{"scale", Value(next.factor_)}, {"_growth_tracker", Value(next.good_batches_)}});
}

void GradientScaler::load_state(const Value& state) {
  *this = GradientScaler(enabled_);
  factor_ = state.at("scale").as_double();
  good_batches_ = state.at("_growth_tracker").as_int();
}

}  // namespace levin
