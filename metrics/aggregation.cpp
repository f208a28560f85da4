#include "levin/metrics/aggregation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/options/registry.h"
#include "levin/metrics/class_input.h"

namespace levin {

LEVIN_REGISTER_METRIC(MeanMetric, "The mean of values");
LEVIN_REGISTER_METRIC(SumMetric, "The sum of values");
LEVIN_REGISTER_METRIC(MinMetric, "The least value");
LEVIN_REGISTER_METRIC(MaxMetric, "The largest value");
LEVIN_REGISTER_METRIC(RunningMean, "The mean of the values of the last updates");
LEVIN_REGISTER_METRIC(RunningSum, "The sum of the values of the last updates");

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Where what stands in the state of an aggregator.
constexpr std::size_t kNans = 0, kUpdates = 1, kFirst = 2;

template <class O>
void declare_nan_strategy(OptionList<O>& options) {
  options.add("nan_strategy", &O::nan_strategy,
              "What happens to NaN: left out with a warning or without, an error, or taken in");
}

}  // namespace

namespace detail {

Aggregator::Aggregator(const char* metric, Kind kind, NanStrategy nan_strategy, std::int64_t window)
    : metric_(metric),
      kind_(kind),
      nan_strategy_(nan_strategy),
      window_(window),
      state_kind_(format("values of kind {}, of the last {} updates, NaN: {}", static_cast<int>(kind), window,
                         choice_name(nan_strategy))),
      numbers_(add_numbers("totals", {2 + 2 * std::max<std::int64_t>(window, 1)})) {}

double Aggregator::nothing() const { return kind_ == Kind::kMin ? kInfinity : kind_ == Kind::kMax ? -kInfinity : 0; }

double Aggregator::folded(double total, double value) const {
  if (kind_ != Kind::kMin && kind_ != Kind::kMax) return total + value;
  const bool replaces = std::isnan(value) || (kind_ == Kind::kMin ? value < total : value > total);
  return replaces ? value : total;
}

void Aggregator::throw_nan(double count) const {
  throw MisuseError(
      format("{} got {:.0f} values or weights that are NaN; another nan_strategy leaves them out.", metric_, count));
}

std::vector<double> Aggregator::empty_batch() const {
  std::vector<double> batch(kFirst + 2 * static_cast<std::size_t>(std::max<std::int64_t>(window_, 1)));
  batch[kUpdates] = 1;
  batch[kFirst] = nothing();
  return batch;
}

void Aggregator::add(std::vector<double>& batch, double value, double weight) const {
  if (nan_strategy_ != NanStrategy::kDisable && (std::isnan(value) || std::isnan(weight))) {
    if (nan_strategy_ == NanStrategy::kError) throw_nan(1);
    ++batch[kNans];
    return;
  }
  batch[kFirst] = folded(batch[kFirst], kind_ == Kind::kMean ? value * weight : value);
  batch[kFirst + 1] += weight;
}

void Aggregator::update(double value, double weight) {
  std::vector<double> batch = empty_batch();
  add(batch, value, weight);
  take_numbers(batch);
}

void Aggregator::update(const at::Tensor& values) {
  if (!values.is_cpu()) return take(values, at::ones({}, values.options().dtype(at::kDouble)));
  std::vector<double> batch = empty_batch();
  const auto add_all = [&](const auto* numbers) {
    for (std::int64_t index = 0; index < values.numel(); ++index) add(batch, static_cast<double>(numbers[index]), 1);
  };
  values.scalar_type() == at::kFloat ? add_all(Plain<float>(values).data()) : add_all(Plain<double>(values).data());
  take_numbers(batch);
}

void Aggregator::update(const at::Tensor& values, const at::Tensor& weights) {
  if (kind_ != Kind::kMean) throw MisuseError(format("{} takes values only, and got weights too.", metric_));
  on_cpu(metric_, values, weights);
  if (!at::is_expandable_to(weights.sizes(), values.sizes())) {
    throw MisuseError(format("{} takes weights that stretch to the shape of the values, and got {} for {}.", metric_,
                             shape_text(weights), shape_text(values)));
  }
  take(values, weights.detach().to(at::kDouble));
}

void Aggregator::take(const at::Tensor& values, const at::Tensor& weights) {
  std::vector<double> batch = empty_batch();
  const at::Tensor stretched = weights.expand(values.sizes());
  if (values.is_cpu()) {
    const Plain<double> plain(values), weight(stretched);
    for (std::int64_t index = 0; index < values.numel(); ++index) add(batch, plain.data()[index], weight.data()[index]);
    return take_numbers(batch);
  }
  const at::Tensor numbers = values.detach().to(at::kDouble);
  const bool keeps_nan = nan_strategy_ == NanStrategy::kDisable;
  const at::Tensor nan = keeps_nan ? at::zeros_like(numbers, at::kBool) : numbers.isnan().bitwise_or(stretched.isnan());
  const at::Tensor taken = (kind_ == Kind::kMean ? numbers.mul(stretched) : numbers).masked_fill(nan, nothing()).reshape({-1});
  const at::Tensor all = at::cat({taken, at::full({1}, nothing(), taken.options())});
  const at::Tensor value = kind_ == Kind::kMin ? all.min() : kind_ == Kind::kMax ? all.max() : all.sum();
  const at::Tensor weight = stretched.masked_fill(nan, 0).sum();
  const at::Tensor record = at::stack({nan.sum().to(at::kDouble), at::ones_like(value), value, weight});
  take_numbers(at::cat({record, at::zeros({static_cast<std::int64_t>(batch.size()) - 4}, record.options())}));
}

void Aggregator::merge_numbers(std::span<double> total, std::span<const double> more) const {
  total[kNans] += more[kNans];
  total[kUpdates] = std::max(total[kUpdates], more[kUpdates]);
  for (std::size_t at = kFirst; at < total.size(); at += 2) {
    total[at] = folded(total[at], more[at]);
    total[at + 1] += more[at + 1];
  }
}

void Aggregator::take_batch(std::span<double> total, std::span<const double> batch, bool first) const {
  if (window_ == 0) return Metric::take_batch(total, batch, first);
  const auto place = static_cast<std::size_t>(total[kUpdates]) % static_cast<std::size_t>(window_);
  total[kNans] += batch[kNans];
  ++total[kUpdates];
  total[kFirst + 2 * place] = batch[kFirst];
  total[kFirst + 2 * place + 1] = batch[kFirst + 1];
}

MetricValue Aggregator::compute() const {
  const std::span<const double> numbers = numbers_.values();
  if (numbers[kUpdates] == 0) return kind_ == Kind::kMean ? detail::kNaN : nothing();
  if (numbers[kNans] > 0 && nan_strategy_ == NanStrategy::kError) throw_nan(numbers[kNans]);
  if (numbers[kNans] > 0 && nan_strategy_ == NanStrategy::kWarn) {
    rank_warn_once(metric_, " leaves out values that are NaN; nan_strategy says what happens to them.");
  }
  double total = numbers[kFirst], weight = numbers[kFirst + 1];
  for (std::size_t at = kFirst + 2; at < numbers.size(); at += 2) {
    total += numbers[at];
    weight += numbers[at + 1];
  }
  return kind_ == Kind::kMean ? total / weight : total;
}

}  // namespace detail

void AggregatorOptions::declare(OptionList<AggregatorOptions>& options) { declare_nan_strategy(options); }
void RunningOptions::declare(OptionList<RunningOptions>& options) {
  options.add("window", &RunningOptions::window, "Updates that count").min(1);
  declare_nan_strategy(options);
}

}  // namespace levin
