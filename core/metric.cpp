#include "levin/core/metric.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
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

void check_count(const std::string& what, std::size_t wanted, std::int64_t given) {
  if (given == static_cast<std::int64_t>(wanted)) return;
  throw MisuseError(format("{} of a metric has {} numbers, and got {}.", what, wanted, given));
}

at::Tensor flat_doubles(const at::Tensor& values) { return values.detach().to(at::kDouble).reshape({-1}).contiguous(); }

std::span<const double> numbers_in(const at::Tensor& doubles) {
  return {doubles.const_data_ptr<double>(), static_cast<std::size_t>(doubles.numel())};
}

at::Tensor combined(Reduce reduce, const at::Tensor& total, const at::Tensor& more) {
  if (reduce == Reduce::kMin) return at::minimum(total, more);
  return reduce == Reduce::kMax ? at::maximum(total, more) : at::add(total, more);
}

}  // namespace

MetricValue::MetricValue(const at::Tensor& value) : shape(value.sizes().vec()) {
  const at::Tensor numbers = flat_doubles(value).cpu();
  values.assign(numbers_in(numbers).begin(), numbers_in(numbers).end());
}

double MetricValue::item() const {
  if (values.size() != 1) throw MisuseError(format("a metric of the shape {} was asked for one number.", shape_text(shape)));
  return values.front();
}

at::Tensor MetricValue::tensor() const { return at::tensor(values, at::kDouble).reshape(shape); }

/// What has been taken in, on the host and on a device.
class Metric::Accumulator final : public MetricStateReader {
 public:
  explicit Accumulator(const Metric& metric)
      : metric_(metric),
        state_(metric.empty_state()),
        numbers_on_device_(metric.numbers_.size()),
        rows_on_device_(metric.rows_.size()) {}

  void take(std::size_t index, std::span<const double> values) {
    const NumbersPart& part = metric_.numbers_[index];
    double* const numbers = state_.numbers.data() + part.begin;
    for (std::size_t place = 0; place < values.size(); ++place) {
      numbers[place] = detail::combine(part.reduce, numbers[place], values[place]);
    }
    ++state_.updates;
  }
  std::span<double> in_place(std::size_t index) {
    const NumbersPart& part = metric_.numbers_[index];
    ++state_.updates;
    return std::span(state_.numbers).subspan(part.begin, part.count);
  }
  /// Into a new tensor: a copy of this one may hold the old one.
  void take_on_device(std::size_t index, const at::Tensor& values) {
    at::Tensor& total = numbers_on_device_[index];
    total = total.defined() ? combined(metric_.numbers_[index].reduce, total, values) : values.clone();
  }
  void append(std::size_t index, const at::Tensor& rows) {
    state_.rows[index].append(static_cast<const char*>(rows.const_data_ptr()), rows.nbytes());
    ++state_.updates;
  }
  void append_on_device(std::size_t index, const at::Tensor& rows) { rows_on_device_[index].push_back(rows.clone()); }
  void take_all(std::span<const double> numbers) {
    metric_.take_batch(state_.numbers, numbers, state_.empty());
    ++state_.updates;
  }
  void take_all_on_device(const at::Tensor& numbers) {
    constexpr std::size_t kMostThatWait = 64;
    if (batches_on_device_.size() == kMostThatWait) read();
    batches_on_device_.push_back(numbers.clone());
  }

  const MetricState& read() override {
    for (std::size_t index = 0; index < numbers_on_device_.size(); ++index) {
      if (numbers_on_device_[index].defined()) take(index, numbers_in(std::exchange(numbers_on_device_[index], {}).cpu()));
    }
    for (std::size_t index = 0; index < rows_on_device_.size(); ++index) {
      if (!rows_on_device_[index].empty()) append(index, at::cat(std::exchange(rows_on_device_[index], {})).cpu());
    }
    if (!batches_on_device_.empty()) {
      for (const at::Tensor& batch : at::stack(std::exchange(batches_on_device_, {})).cpu().unbind())
        take_all(numbers_in(batch));
    }
    return state_;
  }
  void set(MetricState state) { state_ = std::move(state); }

  /// A copy that has no rows, which only grow: of those it is enough to know how many bytes there are.
  std::unique_ptr<Accumulator> without_rows() const {
    auto copy = std::make_unique<Accumulator>(metric_);
    copy->state_.numbers = state_.numbers;
    copy->state_.updates = state_.updates;
    copy->numbers_on_device_ = numbers_on_device_;
    copy->batches_on_device_ = batches_on_device_;
    return copy;
  }
  std::vector<std::size_t> row_bytes() const {
    std::vector<std::size_t> bytes;
    for (std::size_t index = 0; index < rows_on_device_.size(); ++index) {
      bytes.push_back(state_.rows[index].size());
      for (const at::Tensor& rows : rows_on_device_[index]) bytes.back() += rows.nbytes();
    }
    return bytes;
  }

 private:
  const Metric& metric_;
  MetricState state_;
  std::vector<at::Tensor> numbers_on_device_;
  std::vector<std::vector<at::Tensor>> rows_on_device_;
  std::vector<at::Tensor> batches_on_device_;
};

Metric::Metric() : total_(std::make_shared<Accumulator>(*this)) {}
Metric::~Metric() = default;

template <class Take>
void Metric::take_in(const Take& take) {
  all_ranks_.reset();
  if (batch_ && std::exchange(batch_is_taken_, false)) batch_ = std::make_shared<Accumulator>(*this);
  for (Accumulator* into : {total_.get(), batch_.get()}) {
    if (into != nullptr) take(*into);
  }
}

void MetricNumbers::take(std::span<const double> values) {
  const Metric::NumbersPart& part = metric_->numbers_[index_];
  if (values.size() != part.count) check_count(part.name, part.count, static_cast<std::int64_t>(values.size()));
  metric_->take_in([&](Metric::Accumulator& into) { into.take(index_, values); });
}

void MetricNumbers::take(const at::Tensor& values) {
  const at::Tensor flat = flat_doubles(values);
  if (flat.is_cpu()) return take(numbers_in(flat));
  const Metric::NumbersPart& part = metric_->numbers_[index_];
  check_count(part.name, part.count, flat.numel());
  metric_->take_in([&](Metric::Accumulator& into) { into.take_on_device(index_, flat); });
}

std::array<std::span<double>, 2> MetricNumbers::places() {
  std::array<std::span<double>, 2> places;
  std::size_t used = 0;
  metric_->take_in([&](Metric::Accumulator& into) { places[used++] = into.in_place(index_); });
  return places;
}

std::span<const double> MetricNumbers::values() const {
  const Metric::NumbersPart& part = metric_->numbers_[index_];
  return std::span(metric_->readable().numbers).subspan(part.begin, part.count);
}

at::Tensor MetricNumbers::tensor() const {
  const std::span<const double> numbers = values();
  return at::tensor(at::ArrayRef<double>(numbers.data(), numbers.size()), at::kDouble).reshape(metric_->numbers_[index_].shape);
}

void MetricSamples::append(const at::Tensor& rows) {
  const Metric::RowsPart& part = metric_->rows_[index_];
  if (rows.dim() == 0 || rows.sizes().slice(1) != at::IntArrayRef(part.shape)) {
    throw MisuseError(format("{} of a metric takes rows of the shape {}, and got a tensor of the shape {}.", part.name,
                             shape_text(part.shape), shape_text(rows.sizes())));
  }
  const at::Tensor converted = rows.detach().to(part.type).contiguous();
  metric_->take_in([&](Metric::Accumulator& into) {
    converted.is_cpu() ? into.append(index_, converted) : into.append_on_device(index_, converted);
  });
}

at::Tensor MetricSamples::tensor() const {
  const Metric::RowsPart& part = metric_->rows_[index_];
  const std::string& bytes = metric_->readable().rows[index_];
  const auto row_bytes =
      static_cast<std::size_t>(c10::multiply_integers(part.shape)) * static_cast<std::size_t>(c10::elementSize(part.type));
  std::vector<std::int64_t> sizes = part.shape;
  sizes.insert(sizes.begin(), row_bytes == 0 ? 0 : static_cast<std::int64_t>(bytes.size() / row_bytes));
  at::Tensor rows = at::empty(sizes, part.type);
  if (!bytes.empty()) std::memcpy(rows.mutable_data_ptr(), bytes.data(), rows.nbytes());
  return rows;
}

void Metric::reset() {
  total_ = std::make_shared<Accumulator>(*this);
  batch_.reset();
  batch_is_taken_ = false;
  all_ranks_.reset();
  marked_.reset();
}

const MetricState& Metric::state() const { return total_->read(); }

MetricState Metric::empty_state() const {
  MetricState state{.numbers = {}, .rows = std::vector<std::string>(rows_.size())};
  for (const NumbersPart& part : numbers_) state.numbers.insert(state.numbers.end(), part.count, detail::identity(part.reduce));
  return state;
}

void Metric::set_state(MetricState state) {
  const MetricState empty = empty_state();
  if (state.numbers.size() != empty.numbers.size() || state.rows.size() != empty.rows.size()) {
    throw MisuseError(format("the state of a metric has {} numbers and {} lists of rows, but this one has {} and {}.",
                             empty.numbers.size(), empty.rows.size(), state.numbers.size(), state.rows.size()));
  }
  reset();
  total_->set(std::move(state));
  // What the next batch takes in is not all that there is.
  batch_ = std::make_shared<Accumulator>(*this);
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
  struct Reading {
    Reading(const MetricState*& which, const MetricState& now) : place(which), before(std::exchange(which, &now)) {}
    ~Reading() { place = before; }
    const MetricState*& place;
    const MetricState* before;
  };
  const Reading reading(reading_, state);
  return compute();
}

std::vector<double> Metric::values_of(const MetricState& state) const { return compute(state).values; }

std::vector<std::string> Metric::value_names(const std::string& name) const {
  std::vector<std::string> names{name};
  for (const std::int64_t size : compute(empty_state()).shape) {
    std::vector<std::string> longer;
    for (const std::string& begin : names) {
      for (std::int64_t index = 0; index < size; ++index) longer.push_back(format("{}_{}", begin, index));
    }
    names = std::move(longer);
  }
  return names;
}

std::shared_ptr<MetricStateReader> Metric::batch_state() {
  // The first batch is all that there is since the last reset.
  if (!batch_) batch_ = std::make_shared<Accumulator>(*total_);
  batch_is_taken_ = true;
  return batch_;
}

void Metric::mark() {
  marked_ = total_->without_rows();
  marked_row_bytes_ = total_->row_bytes();
}

MetricState Metric::marked() const {
  if (!marked_) return state();
  MetricState state = marked_->read();
  for (std::size_t index = 0; index < rows_.size(); ++index) {
    state.rows[index] = total_->read().rows[index].substr(0, marked_row_bytes_[index]);
  }
  // Rows alone are something that was taken in, too.
  if (std::any_of(state.rows.begin(), state.rows.end(), [](const std::string& rows) { return !rows.empty(); })) {
    state.updates = std::max<std::int64_t>(state.updates, 1);
  }
  return state;
}

MetricNumbers Metric::add_numbers(std::string name, std::vector<std::int64_t> shape, Reduce reduce) {
  const std::size_t begin = state_size();
  const auto count = static_cast<std::size_t>(c10::multiply_integers(shape));
  numbers_.push_back({.name = std::move(name), .shape = std::move(shape), .reduce = reduce, .begin = begin, .count = count});
  reset();
  return {*this, numbers_.size() - 1};
}

MetricSamples Metric::add_samples(std::string name, at::ScalarType type, std::vector<std::int64_t> shape) {
  rows_.push_back({.name = std::move(name), .shape = std::move(shape), .type = type});
  reset();
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
  const at::Tensor flat = flat_doubles(numbers);
  if (flat.is_cpu()) return take_numbers(numbers_in(flat));
  check_count("the state", state_size(), flat.numel());
  take_in([&](Accumulator& into) { into.take_all_on_device(flat); });
}

void Metric::take_numbers(std::span<const double> numbers) {
  check_count("the state", state_size(), static_cast<std::int64_t>(numbers.size()));
  take_in([&](Accumulator& into) { into.take_all(numbers); });
}

void Metric::take_batch(std::span<double> total, std::span<const double> batch, bool first) const {
  if (first) {
    std::copy(batch.begin(), batch.end(), total.begin());
  } else {
    merge_numbers(total, batch);
  }
}

const MetricState& Metric::readable() const {
  if (reading_ != nullptr) return *reading_;
  return all_ranks_ ? *all_ranks_ : state();
}

}  // namespace levin
