#include "levin/core/engine/parts/scalar_value.h"

#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stack.h>

#include <vector>

namespace levin {

namespace {

/// Values of an epoch need more than a float holds. MPS has nothing wider.
at::ScalarType wide_type(const at::Tensor& value) { return value.is_mps() ? at::kFloat : at::kDouble; }
/// In what is added up.
at::Tensor widened(const at::Tensor& value, bool copy = false) {
  return value.to(wide_type(value), /*non_blocking=*/false, copy);
}

at::Tensor combined(const at::Tensor& total, const at::Tensor& value, Reduce reduce, double weight) {
  if (reduce == Reduce::kMin) return at::minimum(total, value);
  if (reduce == Reduce::kMax) return at::maximum(total, value);
  return at::add(total, value, reduce == Reduce::kMean ? weight : 1);
}

}  // namespace

double scalar_value(const at::Tensor& value) {
  // Of a lazy negation or an implied zero the memory says something else, or is not there.
  const bool holds_value = value.layout() == at::kStrided && !value.is_neg() && !value._is_zerotensor();
  if (!holds_value) return value.item().toDouble();
  switch (value.scalar_type()) {
    case at::kFloat:
      return *value.const_data_ptr<float>();
    case at::kDouble:
      return *value.const_data_ptr<double>();
    case at::kLong:
      return static_cast<double>(*value.const_data_ptr<std::int64_t>());
    default:
      return value.item().toDouble();
  }
}

double DeferredScalar::read() {
  if (!number_) number_ = value_.item().toDouble();
  return *number_;
}

std::shared_ptr<DeferredValue> DeferredScalar::added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce,
                                                        double weight, double so_far) {
  if (!total && so_far != detail::identity(reduce)) {
    const at::Tensor earlier = at::full({}, so_far, value_.options().dtype(wide_type(value_)));
    return std::make_shared<DeferredScalar>(combined(earlier, value_, reduce, weight));
  }
  if (!total) {
    at::Tensor first = widened(value_, /*copy=*/true);
    return std::make_shared<DeferredScalar>(reduce == Reduce::kMean ? first.mul_(weight) : first);
  }
  // Into a new tensor: a snapshot may hold the old one.
  const at::Tensor& earlier = dynamic_cast<const DeferredScalar&>(*total).value_;
  return std::make_shared<DeferredScalar>(
      combined(earlier, value_.to(earlier.device(), /*non_blocking=*/true), reduce, weight));
}

void DeferredScalar::read_with(std::span<DeferredValue* const> values) {
  std::vector<DeferredScalar*> scalars;
  std::vector<at::Tensor> numbers;
  for (DeferredValue* value : values) {
    auto* scalar = dynamic_cast<DeferredScalar*>(value);
    if (scalar == nullptr || scalar->number_ || scalar->value_.device() != value_.device()) continue;
    scalars.push_back(scalar);
    numbers.push_back(widened(scalar->value_));
  }
  if (scalars.size() < 2) return;
  const at::Tensor on_host = at::stack(numbers).cpu();
  for (std::size_t index = 0; index < scalars.size(); ++index) {
    scalars[index]->number_ = on_host[static_cast<std::int64_t>(index)].item().toDouble();
  }
}

}  // namespace levin
