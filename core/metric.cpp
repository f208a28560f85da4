#include "levin/core/metric.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/protocol/metric_table.h"

namespace levin {
namespace {

std::string shape_text(at::IntArrayRef sizes) {
  return "[" + join(sizes, ", ", [](std::int64_t size) { return std::to_string(size); }) + "]";
}

at::Tensor identity_of(Reduce reduce, std::int64_t count, const at::Device& device) {
  return at::full({count}, detail::identity(reduce), at::TensorOptions(at::kDouble).device(device));
}

}  // namespace

MetricValue::MetricValue(const at::Tensor& value) : shape(value.sizes().vec()) {
  const at::Tensor numbers = value.detach().to(at::kCPU, at::kDouble).contiguous();
  values.assign(numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel());
}

double MetricValue::item() const {
  if (values.size() != 1) {
    throw MisuseError(format("a metric of the shape {} was asked for one number.", shape_text(shape)));
  }
  return values.front();
}

at::Tensor MetricValue::tensor() const { return at::tensor(values, at::kDouble).reshape(shape); }

void MetricNumbers::take(std::span<const double> values) {
  const Metric::NumbersPart& part = metric_->numbers_[index_];
  if (values.size() != part.count) {
    throw MisuseError(format("\"{}\" of a metric has {} numbers, and got {}.", part.name, part.count, values.size()));
  }
  for (std::size_t index = 0; index < values.size(); ++index) {
    double& number = metric_->state_.numbers[part.begin + index];
    number = detail::combine(part.reduce, number, values[index]);
  }
  ++metric_->state_.updates;
}

void MetricNumbers::take(const at::Tensor& values) {
  Metric::NumbersPart& part = metric_->numbers_[index_];
  const at::Tensor flat = values.detach().to(at::kDouble).reshape({-1});
  if (flat.is_cpu()) {
    const at::Tensor numbers = flat.contiguous();
    return take({numbers.const_data_ptr<double>(), static_cast<std::size_t>(numbers.numel())});
  }
  const auto count = static_cast<std::int64_t>(part.count);
  if (flat.numel() != count) {
    throw MisuseError(format("\"{}\" of a metric has {} numbers, and got {}.", part.name, count, flat.numel()));
  }
  if (!part.on_device.defined()) part.on_device = identity_of(part.reduce, count, flat.device());
  if (part.reduce == Reduce::kMin) {
    part.on_device = at::minimum(part.on_device, flat);
  } else if (part.reduce == Reduce::kMax) {
    part.on_device = at::maximum(part.on_device, flat);
  } else {
    part.on_device.add_(flat);
  }
}

std::span<const double> MetricNumbers::values() const {
  const Metric::NumbersPart& part = metric_->numbers_[index_];
  return std::span(metric_->readable().numbers).subspan(part.begin, part.count);
}

at::Tensor MetricNumbers::tensor() const {
  const std::span<const double> numbers = values();
  return at::tensor(at::ArrayRef<double>(numbers.data(), numbers.size()), at::kDouble).reshape(metric_->numbers_[index_].shape);
}

void MetricRows::append(const at::Tensor& rows) {
  Metric::RowsPart& part = metric_->rows_[index_];
  if (rows.dim() == 0 || rows.sizes().slice(1) != at::IntArrayRef(part.shape)) {
    throw MisuseError(format("\"{}\" of a metric takes rows of the shape {}, and got a tensor of the shape {}.", part.name,
                             shape_text(part.shape), shape_text(rows.sizes())));
  }
  const at::Tensor converted = rows.detach().to(part.type).contiguous();
  if (!converted.is_cpu()) {
    part.on_device.push_back(converted.is_alias_of(rows) ? converted.clone() : converted);
    return;
  }
  metric_->state_.rows[index_].append(static_cast<const char*>(converted.const_data_ptr()), converted.nbytes());
  ++metric_->state_.updates;
}

at::Tensor MetricRows::tensor() const {
  const Metric::RowsPart& part = metric_->rows_[index_];
  const std::string& bytes = metric_->readable().rows[index_];
  std::vector<std::int64_t> sizes = part.shape;
  sizes.insert(sizes.begin(), 0);
  const std::int64_t row = c10::multiply_integers(part.shape) * static_cast<std::int64_t>(c10::elementSize(part.type));
  sizes.front() = row == 0 ? 0 : static_cast<std::int64_t>(bytes.size()) / row;
  at::Tensor rows = at::empty(sizes, part.type);
  if (!bytes.empty()) std::memcpy(rows.mutable_data_ptr(), bytes.data(), rows.nbytes());
  return rows;
}

void Metric::reset() {
  for (NumbersPart& part : numbers_) part.on_device.reset();
  for (RowsPart& part : rows_) part.on_device.clear();
  batches_on_device_.clear();
  state_ = empty_state();
}

const MetricState& Metric::state() const {
  settle();
  return state_;
}

MetricState Metric::empty_state() const {
  MetricState state{.numbers = {}, .rows = std::vector<std::string>(rows_.size())};
  for (const NumbersPart& part : numbers_) state.numbers.insert(state.numbers.end(), part.count, detail::identity(part.reduce));
  return state;
}

void Metric::set_state(MetricState state) {
  if (state.numbers.size() != state_.numbers.size() || state.rows.size() != state_.rows.size()) {
    throw MisuseError(format("the state of a metric has {} numbers and {} lists of rows, but this one has {} and {}.",
                             state.numbers.size(), state.rows.size(), state_.numbers.size(), state_.rows.size()));
  }
  reset();
  state_ = std::move(state);
}

void Metric::merge(MetricState& total, const MetricState& more) const {
  if (more.empty()) return;
  if (total.empty()) {
    total = more;
    return;
  }
  merge_numbers(total.numbers, more.numbers);
  for (std::size_t index = 0; index < total.rows.size(); ++index) total.rows[index] += more.rows[index];
  total.updates += more.updates;
}

MetricValue Metric::compute(const MetricState& state) const {
  const MetricState* const before = std::exchange(reading_, &state);
  try {
    MetricValue value = compute();
    reading_ = before;
    return value;
  } catch (...) {
    reading_ = before;
    throw;
  }
}

MetricNumbers Metric::add_numbers(std::string name, std::vector<std::int64_t> shape, Reduce reduce) {
  const auto count = static_cast<std::size_t>(c10::multiply_integers(shape));
  numbers_.push_back(
      {.name = std::move(name), .shape = std::move(shape), .reduce = reduce, .begin = state_.numbers.size(), .count = count});
  state_ = empty_state();
  return {*this, numbers_.size() - 1};
}

MetricRows Metric::add_rows(std::string name, at::ScalarType type, std::vector<std::int64_t> shape) {
  rows_.push_back({.name = std::move(name), .shape = std::move(shape), .type = type});
  state_ = empty_state();
  return {*this, rows_.size() - 1};
}

void Metric::merge_numbers(std::span<double> total, std::span<const double> more) const {
  for (const NumbersPart& part : numbers_) {
    for (std::size_t index = part.begin; index < part.begin + part.count; ++index) {
      total[index] = detail::combine(part.reduce, total[index], more[index]);
    }
  }
}

void Metric::take_numbers(const at::Tensor& numbers) {
  const at::Tensor flat = numbers.detach().to(at::kDouble).reshape({-1}).contiguous();
  if (flat.numel() != static_cast<std::int64_t>(state_.numbers.size())) {
    throw MisuseError(format("the state of a metric has {} numbers, and got {}.", state_.numbers.size(), flat.numel()));
  }
  if (!flat.is_cpu()) {
    batches_on_device_.push_back(flat);
    return;
  }
  const std::span<const double> batch(flat.const_data_ptr<double>(), state_.numbers.size());
  if (state_.empty()) {
    state_.numbers.assign(batch.begin(), batch.end());
  } else {
    merge_numbers(state_.numbers, batch);
  }
  ++state_.updates;
}

const MetricState& Metric::readable() const { return reading_ != nullptr ? *reading_ : state(); }

void Metric::settle() const {
  auto& self = const_cast<Metric&>(*this);
  for (std::size_t index = 0; index < numbers_.size(); ++index) {
    if (!numbers_[index].on_device.defined()) continue;
    MetricNumbers(self, index).take(std::exchange(numbers_[index].on_device, {}).cpu());
  }
  for (std::size_t index = 0; index < rows_.size(); ++index) {
    if (rows_[index].on_device.empty()) continue;
    MetricRows(self, index).append(at::cat(std::exchange(rows_[index].on_device, {})).cpu());
  }
  if (batches_on_device_.empty()) return;
  const at::Tensor batches = at::stack(std::exchange(batches_on_device_, {})).cpu();
  for (const at::Tensor& batch : batches.unbind()) self.take_numbers(batch);
}

}  // namespace levin
