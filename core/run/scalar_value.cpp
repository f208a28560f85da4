#include "levin/core/run/scalar_value.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stack.h>
#include <c10/core/Event.h>

#include "levin/core/device_copies.h"

namespace levin {

namespace {

/// Values of an epoch need more precision than a float. MPS has nothing wider.
at::ScalarType wide_type(const at::Tensor& value) { return value.is_mps() ? at::kFloat : at::kDouble; }

void combine_into(at::Tensor& total, const at::Tensor& earlier, const at::Tensor& value, Reduce reduce, double weight) {
  if (reduce == Reduce::kMin) {
    at::minimum_out(total, earlier, value);
  } else if (reduce == Reduce::kMax) {
    at::maximum_out(total, earlier, value);
  } else {
    at::add_out(total, earlier, value, reduce == Reduce::kMean ? weight : 1);
  }
}

}  // namespace

double scalar_value(const at::Tensor& value) {
  // For a lazy negation or an implied zero the memory differs or is missing.
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

ScalarMemory::Key ScalarMemory::key_of(const at::Device& device, at::ScalarType type) {
  return {device.type(), device.index(), current_stream(device).id(), type};
}

at::Tensor ScalarMemory::take(const at::Device& device, at::ScalarType type) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<at::Tensor>& unused = unused_[key_of(device, type)];
    if (!unused.empty()) {
      at::Tensor scalar = std::move(unused.back());
      unused.pop_back();
      return scalar;
    }
  }
  return at::empty({}, at::TensorOptions().device(device).dtype(type));
}

void ScalarMemory::give(at::Tensor scalar) {
  const Key key = key_of(scalar.device(), scalar.scalar_type());
  const std::lock_guard lock(mutex_);
  unused_[key].push_back(std::move(scalar));
}

struct DeferredScalar::Arrival {
  Arrival(const at::Tensor& numbers, const c10::Stream& stream) : on_host(sent_to_host(numbers)), event(stream.device_type()) {
    event.record(stream);
  }
  at::Tensor on_host;
  c10::Event event;
};

DeferredScalar::~DeferredScalar() {
  if (is_of_memory_) memory_->give(std::move(value_));
}

double DeferredScalar::read() {
  if (!known()) number_ = value_.item().toDouble();
  return *number_;
}

std::optional<double> DeferredScalar::known() {
  if (!number_ && arrival_ && arrival_->event.query()) number_ = arrival_->on_host[place_].item().toDouble();
  return number_;
}

void DeferredScalar::keep() {
  at::Tensor kept = memory_->take(value_.device(), value_.scalar_type());
  kept.copy_(value_);
  value_ = std::move(kept);
  is_of_memory_ = true;
}

std::shared_ptr<DeferredValue> DeferredScalar::added_to(const std::shared_ptr<DeferredValue>& total, Reduce reduce,
                                                        double weight, double so_far) {
  const at::NoGradGuard no_grad;
  const auto* before = dynamic_cast<const DeferredScalar*>(total.get());
  const at::Device device = before != nullptr ? before->value_.device() : value_.device();
  // Into another tensor: a snapshot may hold the old one.
  const auto sum = std::make_shared<DeferredScalar>(memory_->take(device, wide_type(value_)), memory_);
  sum->is_of_memory_ = true;
  if (before != nullptr) {
    combine_into(sum->value_, before->value_, value_.to(device, /*non_blocking=*/true), reduce, weight);
  } else if (so_far != detail::identity(reduce)) {
    sum->value_.fill_(so_far);
    combine_into(sum->value_, sum->value_, value_, reduce, weight);
  } else {
    sum->value_.copy_(value_);
    if (reduce == Reduce::kMean && weight != 1) sum->value_.mul_(weight);
  }
  return sum;
}

std::vector<DeferredScalar*> DeferredScalar::unread(std::span<DeferredValue* const> values) const {
  std::vector<DeferredScalar*> scalars;
  for (DeferredValue* value : values) {
    auto* scalar = dynamic_cast<DeferredScalar*>(value);
    if (scalar != nullptr && !scalar->known() && scalar->value_.device() == value_.device()) scalars.push_back(scalar);
  }
  return scalars;
}

at::Tensor DeferredScalar::numbers_of(const std::vector<DeferredScalar*>& scalars) {
  std::vector<at::Tensor> numbers;
  for (const DeferredScalar* scalar : scalars) numbers.push_back(scalar->value_.to(wide_type(scalar->value_)));
  return at::stack(numbers);
}

void DeferredScalar::read_with(std::span<DeferredValue* const> values) {
  const std::vector<DeferredScalar*> scalars = unread(values);
  if (scalars.size() < 2) return;
  const at::Tensor on_host = numbers_of(scalars).cpu();
  for (std::size_t index = 0; index < scalars.size(); ++index) {
    scalars[index]->number_ = on_host[static_cast<std::int64_t>(index)].item().toDouble();
  }
}

void DeferredScalar::send_for(std::span<DeferredValue* const> values) {
  std::vector<DeferredScalar*> scalars = unread(values);
  std::erase_if(scalars, [](const DeferredScalar* scalar) { return scalar->arrival_ != nullptr; });
  if (scalars.empty()) return;
  const auto arrival = std::make_shared<Arrival>(numbers_of(scalars), current_stream(value_.device()));
  for (std::size_t index = 0; index < scalars.size(); ++index) {
    scalars[index]->arrival_ = arrival;
    scalars[index]->place_ = static_cast<std::int64_t>(index);
  }
}

}  // namespace levin
