#include "levin/core/metric.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/device_copies.h"
#include "levin/core/protocol/metric_table.h"

namespace levin {
namespace {

void check_count(const std::string& what, std::size_t wanted, std::int64_t given) {
  if (given == static_cast<std::int64_t>(wanted)) return;
  throw MisuseError(format("{} of a metric has {} numbers, but got {}.", what, wanted, given));
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
  if (values.size() != 1)
    throw MisuseError(format("a metric of the shape {} is not one number.", c10::str(at::IntArrayRef(shape))));
  return values.front();
}

MetricValue::operator at::Tensor() const { return at::tensor(values, at::kDouble).reshape(shape); }

/// The accumulated values, on the host and on a device.
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
  void take(std::size_t index, const at::Tensor& values) {
    if (values.is_cpu()) return take(index, numbers_in(values));
    // Into a new tensor: a copy of this one may hold the old one.
    at::Tensor& total = numbers_on_device_[index];
    if (!total.defined()) total = taken_back(index, values);
    total = total.defined() ? combined(metric_.numbers_[index].reduce, total, values) : values.clone();
  }
  void append(std::size_t index, const at::Tensor& rows) {
    if (!rows.is_cpu()) return rows_on_device_[index].push_back(rows.clone());
    state_.rows[index].append(static_cast<const char*>(rows.const_data_ptr()), rows.nbytes());
    ++state_.updates;
  }
  void take_all(const at::Tensor& numbers) {
    constexpr std::size_t kMostThatWait = 64;
    if (!numbers.is_cpu()) {
      if (batches_on_device_.size() == kMostThatWait) read();
      return batches_on_device_.push_back(numbers.clone());
    }
    metric_.take_batch(state_.numbers, numbers_in(numbers), state_.empty());
    ++state_.updates;
  }

  void send() override {
    if (!is_on_device()) return;
    Sent sent;
    std::optional<at::Device> device;
    const auto on_its_way = [&](const at::Tensor& there) {
      device = there.device();
      return sent_to_host(there);
    };
    for (at::Tensor& numbers : numbers_on_device_)
      sent.numbers.push_back(numbers.defined() ? on_its_way(std::exchange(numbers, {})) : at::Tensor());
    for (std::vector<at::Tensor>& rows : rows_on_device_)
      sent.rows.push_back(rows.empty() ? at::Tensor() : on_its_way(at::cat(std::exchange(rows, {}))));
    if (!batches_on_device_.empty()) sent.batches = on_its_way(at::stack(std::exchange(batches_on_device_, {})));
    sent.arrived = std::make_shared<c10::Event>(device->type());
    sent.arrived->record(current_stream(*device));
    sent_.push_back(std::move(sent));
  }

  bool is_there() override { return !is_on_device() && std::ranges::all_of(sent_, &Sent::is_there); }

  const MetricState& read() override {
    send();
    for (const Sent& sent : std::exchange(sent_, {})) {
      if (!sent.is_there()) sent.arrived->synchronize();
      for (std::size_t index = 0; index < sent.numbers.size(); ++index) {
        if (sent.numbers[index].defined()) take(index, sent.numbers[index]);
      }
      for (std::size_t index = 0; index < sent.rows.size(); ++index) {
        if (sent.rows[index].defined()) append(index, sent.rows[index]);
      }
      if (!sent.batches.defined()) continue;
      for (const at::Tensor& batch : sent.batches.unbind()) take_all(batch);
    }
    return state_;
  }
  void set(MetricState state) { state_ = std::move(state); }

 private:
  /// Copies to the host, by part; undefined: none.
  struct Sent {
    std::vector<at::Tensor> numbers;
    std::vector<at::Tensor> rows;
    at::Tensor batches;
    std::shared_ptr<c10::Event> arrived;
    bool is_there() const { return arrived->query(); }
  };

  bool is_on_device() const {
    return std::ranges::any_of(numbers_on_device_, &at::Tensor::defined) || !batches_on_device_.empty() ||
           !std::ranges::all_of(rows_on_device_, &std::vector<at::Tensor>::empty);
  }

  /// A reduced part is put back with the values, so that the sum has the same bits whenever it is read.
  at::Tensor taken_back(std::size_t index, const at::Tensor& there) {
    const NumbersPart& part = metric_.numbers_[index];
    const std::span<double> numbers = std::span(state_.numbers).subspan(part.begin, part.count);
    const double nothing = detail::identity(part.reduce);
    if (std::ranges::all_of(numbers, [&](double number) { return number == nothing; })) return {};
    const at::Tensor taken = at::empty({static_cast<std::int64_t>(numbers.size())}, host_options(there).dtype(at::kDouble));
    std::ranges::copy(numbers, taken.mutable_data_ptr<double>());
    std::ranges::fill(numbers, nothing);
    return taken.to(there.device(), /*non_blocking=*/true);
  }

  const Metric& metric_;
  MetricState state_;
  std::vector<at::Tensor> numbers_on_device_;
  std::vector<std::vector<at::Tensor>> rows_on_device_;
  std::vector<at::Tensor> batches_on_device_;
  std::vector<Sent> sent_;  ///< in the order of updates
};

Metric::Metric() : total_(std::make_shared<Accumulator>(*this)) {}
Metric::~Metric() = default;

void Metric::note_change() {
  ++changes_;
  all_ranks_.reset();
}

template <class Take>
void Metric::take_in(const Take& take) {
  note_change();
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
  const Metric::NumbersPart& part = metric_->numbers_[index_];
  const at::Tensor flat = flat_doubles(values);
  check_count(part.name, part.count, flat.numel());
  metric_->take_in([&](Metric::Accumulator& into) { into.take(index_, flat); });
}

std::span<const double> MetricNumbers::values() const {
  const Metric::NumbersPart& part = metric_->numbers_[index_];
  return std::span(metric_->readable().numbers).subspan(part.begin, part.count);
}

void MetricSamples::append(const at::Tensor& rows) {
  const Metric::RowsPart& part = metric_->rows_[index_];
  if (rows.dim() == 0 || rows.sizes().slice(1) != at::IntArrayRef(part.shape)) {
    throw MisuseError(format("{} of a metric takes rows of the shape {}, but got a tensor of the shape {}.", part.name,
                             c10::str(at::IntArrayRef(part.shape)), c10::str(rows.sizes())));
  }
  const at::Tensor converted = rows.detach().to(part.type).contiguous();
  metric_->take_in([&](Metric::Accumulator& into) { into.append(index_, converted); });
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
  note_change();
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
  // The next batch's updates are not the whole state.
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
  const auto read_again = c10::make_scope_exit([this, before = std::exchange(reading_, &state)] { reading_ = before; });
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

void Metric::send() const { total_->send(); }

std::shared_ptr<MetricStateReader> Metric::batch_state() {
  // The first batch is the whole state since the last reset.
  if (!batch_) batch_ = std::make_shared<Accumulator>(*total_);
  batch_is_taken_ = true;
  return batch_;
}

MetricNumbers Metric::add_numbers(std::string name, const std::vector<std::int64_t>& shape, Reduce reduce) {
  const auto count = static_cast<std::size_t>(c10::multiply_integers(shape));
  numbers_.push_back({.name = std::move(name), .reduce = reduce, .begin = state_size(), .count = count});
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
  check_count("the state", state_size(), flat.numel());
  take_in([&](Accumulator& into) { into.take_all(flat); });
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

at::Tensor accuracy(const at::Tensor& scores, const at::Tensor& labels, std::int64_t top_k) {
  const bool fit = scores.dim() >= 2 && labels.dim() == scores.dim() - 1 && scores.select(1, 0).sizes() == labels.sizes();
  if (!fit) {
    throw MisuseError(
        format("accuracy() takes scores of the shape [samples, classes, …] and labels of [samples, …], got {} and {}.",
               c10::str(scores.sizes()), c10::str(labels.sizes())));
  }
  if (top_k < 1 || top_k > scores.size(1)) {
    throw MisuseError(format("accuracy(): top_k is {}, but there are {} classes.", top_k, scores.size(1)));
  }
  const at::Tensor best = top_k == 1 ? scores.argmax(1, /*keepdim=*/true) : std::get<1>(scores.topk(top_k, 1));
  return best.eq(labels.unsqueeze(1)).any(1).to(at::kFloat).mean();
}

at::Tensor binary_accuracy(const at::Tensor& scores, const at::Tensor& labels, double threshold) {
  if (scores.sizes() != labels.sizes()) {
    throw MisuseError(format("binary_accuracy() takes scores and labels of one shape, got {} and {}.", c10::str(scores.sizes()),
                             c10::str(labels.sizes())));
  }
  return scores.gt(threshold).eq(labels.gt(0.5)).to(at::kFloat).mean();
}

}  // namespace levin
