#include "levin/metrics/regression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/metrics/class_input.h"

namespace levin {

LEVIN_REGISTER_METRIC(MeanSquaredError, "The mean of squared differences, or its root");
LEVIN_REGISTER_METRIC(MeanAbsoluteError, "The mean of absolute differences");
LEVIN_REGISTER_METRIC(MeanAbsolutePercentageError, "The mean of absolute differences as shares of the targets");
LEVIN_REGISTER_METRIC(R2Score, "The share of the targets' variance that predictions explain");
LEVIN_REGISTER_METRIC(ExplainedVariance, "The same without the predictions' mean error");
LEVIN_REGISTER_METRIC(PearsonCorrCoef, "The linear correlation of predictions and targets");
LEVIN_REGISTER_METRIC(SpearmanCorrCoef, "The correlation of the ranks of predictions and targets");
LEVIN_REGISTER_METRIC(CosineSimilarity, "The cosine of the angle between rows");
LEVIN_REGISTER_METRIC(KLDivergence, "The Kullback-Leibler divergence of rows");
LEVIN_REGISTER_METRIC(MeanMetric, "The mean of values");
LEVIN_REGISTER_METRIC(SumMetric, "The sum of values");
LEVIN_REGISTER_METRIC(MinMetric, "The least value");
LEVIN_REGISTER_METRIC(MaxMetric, "The largest value");
LEVIN_REGISTER_METRIC(RunningMean, "The mean of the values of the last updates");
LEVIN_REGISTER_METRIC(RunningSum, "The sum of the values of the last updates");

namespace {

/// Throws MisuseError unless both are [N], with one output, or [N, outputs].
void check_outputs(const std::string& metric, std::int64_t outputs, const at::Tensor& predictions, const at::Tensor& targets) {
  detail::check_same_shape(metric, predictions, targets);
  if (targets.dim() == 2 ? targets.size(1) == outputs : targets.dim() == 1 && outputs == 1) return;
  throw MisuseError(format("{} with num_outputs {} takes predictions and targets of the shape {}, and got {}.", metric, outputs,
                           outputs == 1 ? "[N] or [N, 1]" : format("[N, {}]", outputs), c10::str(targets.sizes())));
}

MetricValue one_or_all(std::vector<double> outputs) {
  return outputs.size() == 1 ? MetricValue(outputs.front()) : MetricValue(std::move(outputs));
}

/// 1 - missed / spread; without a spread, 1 where nothing is missed and 0 else.
double explained(double missed, double spread) {
  if (std::isnan(missed) || std::isnan(spread)) return detail::kNaN;
  if (missed == 0) return 1;
  return spread == 0 ? 0 : 1 - missed / spread;
}

}  // namespace

namespace detail {

MeanError::MeanError(const char* metric, Kind kind, std::int64_t outputs)
    : metric_(metric), kind_(kind), outputs_(outputs), sums_(add_numbers("sums", {outputs})) {}

std::string MeanError::state_kind() const {
  const Kind counted = kind_ == Kind::kRootOfSquared ? Kind::kSquared : kind_;
  return format("errors of kind {} of {} outputs", static_cast<int>(counted), outputs_);
}

void MeanError::update(const at::Tensor& predictions, const at::Tensor& targets) {
  constexpr double kLeastTarget = 1.17e-6;
  if (outputs_ == 1) {
    check_same_shape(metric_, predictions, targets);
  } else {
    check_outputs(metric_, outputs_, predictions, targets);
  }
  check_same_device(metric_, predictions, targets);
  const at::Tensor labels = targets.detach().to(at::kDouble);
  const at::Tensor errors = predictions.detach().to(at::kDouble).sub(labels);
  const at::Tensor each = kind_ == Kind::kAbsolute     ? errors.abs()
                          : kind_ == Kind::kPercentage ? errors.abs().div(labels.abs().clamp_min(kLeastTarget))
                                                       : errors.square();
  sums_.take(each.reshape({-1, outputs_}).sum(0));
  count_.take(static_cast<double>(targets.numel()) / static_cast<double>(outputs_));
}

MetricValue MeanError::compute() const {
  std::vector<double> values;
  for (const double sum : sums_.values()) {
    const double mean = sum / count_.value();
    values.push_back(kind_ == Kind::kRootOfSquared ? std::sqrt(mean) : mean);
  }
  return one_or_all(std::move(values));
}

PairMoments::PairMoments(const char* metric, Kind kind, std::int64_t outputs, MultiOutput multi_output, std::int64_t adjusted)
    : metric_(metric),
      kind_(kind),
      outputs_(outputs),
      multi_output_(multi_output),
      adjusted_(adjusted),
      numbers_(add_numbers("moments", {1 + 5 * outputs})) {}

std::string PairMoments::state_kind() const {
  return format("moments of {} and targets of {} outputs", of_errors() ? "errors" : "predictions", outputs_);
}

void PairMoments::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_outputs(metric_, outputs_, predictions, targets);
  check_same_device(metric_, predictions, targets);
  if (targets.numel() == 0) return;
  const at::Tensor y = targets.detach().to(at::kDouble).reshape({-1, outputs_});
  const at::Tensor given = predictions.detach().to(at::kDouble).reshape({-1, outputs_});
  const at::Tensor x = of_errors() ? y.sub(given) : given;
  const at::Tensor mean_x = x.mean(0), mean_y = y.mean(0);
  const at::Tensor dx = x.sub(mean_x), dy = y.sub(mean_y);
  const at::Tensor each = at::stack({mean_x, mean_y, dx.square().sum(0), dy.square().sum(0), dx.mul(dy).sum(0)}, 1);
  take_numbers(at::cat({at::full({1}, static_cast<double>(y.size(0)), y.options()), each.reshape({-1})}));
}

void PairMoments::merge_numbers(std::span<double> total, std::span<const double> more) const {
  const double before = total[0], added = more[0], count = before + added;
  if (added == 0) return;
  total[0] = count;
  for (std::size_t at = 1; at < total.size(); at += 5) {
    const double dx = more[at] - total[at], dy = more[at + 1] - total[at + 1];
    total[at] += dx * added / count;
    total[at + 1] += dy * added / count;
    total[at + 2] += more[at + 2] + dx * dx * before * added / count;
    total[at + 3] += more[at + 3] + dy * dy * before * added / count;
    total[at + 4] += more[at + 4] + dx * dy * before * added / count;
  }
}

MetricValue PairMoments::compute() const {
  const std::span<const double> numbers = numbers_.values();
  const double count = numbers[0];
  // A sum of squares that comes from rounding only is 0.
  const auto squares = [&](double sum, double mean) {
    const double rounding = 4 * std::numeric_limits<double>::epsilon() * std::abs(mean);
    return sum <= count * rounding * rounding ? 0 : sum;
  };
  std::vector<double> scores, variances;
  for (std::size_t at = 1; at < numbers.size(); at += 5) {
    const double mean_x = numbers[at], squares_x = squares(numbers[at + 2], mean_x);
    const double squares_y = squares(numbers[at + 3], numbers[at + 1]);
    variances.push_back(squares_y);
    if (kind_ == Kind::kPearson) {
      const double spread = std::sqrt(squares_x) * std::sqrt(squares_y);
      scores.push_back(spread > 0 ? std::clamp(numbers[at + 4] / spread, -1.0, 1.0) : kNaN);
    } else if (kind_ == Kind::kR2) {
      const double score = count < 2 ? kNaN : explained(squares_x + count * mean_x * mean_x, squares_y);
      const auto adjusted = static_cast<double>(adjusted_);
      const bool is_adjusted = adjusted_ > 0 && adjusted < count - 1;
      scores.push_back(is_adjusted ? 1 - (1 - score) * (count - 1) / (count - adjusted - 1) : score);
    } else {
      scores.push_back(count == 0 ? kNaN : explained(squares_x, squares_y));
    }
  }
  const auto sum = [](const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  if (multi_output_ == MultiOutput::kRawValues) return one_or_all(std::move(scores));
  if (multi_output_ == MultiOutput::kUniformAverage) return sum(scores) / static_cast<double>(scores.size());
  return std::inner_product(scores.begin(), scores.end(), variances.begin(), 0.0) / sum(variances);
}

}  // namespace detail

namespace {

/// Those of the options of these metrics that O has.
template <class O>
void declare_numbers(OptionList<O>& options) {
  if constexpr (requires { &O::squared; }) options.add("squared", &O::squared, "false: the root of the mean");
  if constexpr (requires { &O::log_prob; }) options.add("log_prob", &O::log_prob, "Rows are logarithms of probabilities");
  if constexpr (requires { &O::num_outputs; }) options.add("num_outputs", &O::num_outputs, "Numbers of a sample").min(1);
  if constexpr (requires { &O::adjusted; }) {
    options.add("adjusted", &O::adjusted, "Independent regressors, for the adjusted score").min(0);
  }
  if constexpr (requires { &O::multioutput; }) options.add("multioutput", &O::multioutput, "How outputs become one value");
  if constexpr (requires { &O::reduction; }) options.add("reduction", &O::reduction, "Mean or sum over rows");
}

}  // namespace

void MeanSquaredErrorOptions::declare(OptionList<MeanSquaredErrorOptions>& options) { declare_numbers(options); }
void OutputsOptions::declare(OptionList<OutputsOptions>& options) { declare_numbers(options); }
void R2ScoreOptions::declare(OptionList<R2ScoreOptions>& options) { declare_numbers(options); }
void ExplainedVarianceOptions::declare(OptionList<ExplainedVarianceOptions>& options) { declare_numbers(options); }
void CosineSimilarityOptions::declare(OptionList<CosineSimilarityOptions>& options) { declare_numbers(options); }
void KLDivergenceOptions::declare(OptionList<KLDivergenceOptions>& options) { declare_numbers(options); }

MeanSquaredError::MeanSquaredError(MeanSquaredErrorOptions options)
    : MeanError("MeanSquaredError", options.squared ? Kind::kSquared : Kind::kRootOfSquared,
                checked("MeanSquaredError", options).num_outputs) {}

MeanAbsoluteError::MeanAbsoluteError(MeanAbsoluteErrorOptions options)
    : MeanError("MeanAbsoluteError", Kind::kAbsolute, checked("MeanAbsoluteError", options).num_outputs) {}

MeanAbsolutePercentageError::MeanAbsolutePercentageError() : MeanError("MeanAbsolutePercentageError", Kind::kPercentage) {}

R2Score::R2Score(R2ScoreOptions options)
    : PairMoments("R2Score", Kind::kR2, checked("R2Score", options).num_outputs, options.multioutput, options.adjusted) {}

ExplainedVariance::ExplainedVariance(ExplainedVarianceOptions options)
    : PairMoments("ExplainedVariance", Kind::kExplainedVariance, checked("ExplainedVariance", options).num_outputs,
                  options.multioutput) {}

PearsonCorrCoef::PearsonCorrCoef(PearsonCorrCoefOptions options)
    : PairMoments("PearsonCorrCoef", Kind::kPearson, checked("PearsonCorrCoef", options).num_outputs) {}

SpearmanCorrCoef::SpearmanCorrCoef(SpearmanCorrCoefOptions options)
    : outputs_(checked("SpearmanCorrCoef", options).num_outputs),
      predictions_(add_samples("predictions", at::kDouble, {outputs_})),
      targets_(add_samples("targets", at::kDouble, {outputs_})) {}

void SpearmanCorrCoef::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_outputs("SpearmanCorrCoef", outputs_, predictions, targets);
  detail::check_same_device("SpearmanCorrCoef", predictions, targets);
  predictions_.append(predictions.reshape({-1, outputs_}));
  targets_.append(targets.reshape({-1, outputs_}));
}

namespace {

/// The rank of each value less the mean rank; of equal values the mean of theirs.
at::Tensor centered_ranks(const at::Tensor& column) {
  const auto [sorted, order] = column.sort();
  const auto [values, place, counts] = at::unique_consecutive(sorted, /*return_inverse=*/true, /*return_counts=*/true);
  const at::Tensor ranks = counts.cumsum(0).sub(counts.add(1).to(at::kDouble).div(2));
  return at::zeros_like(column)
      .scatter(0, order, ranks.index_select(0, place))
      .sub((static_cast<double>(column.numel()) - 1) / 2);
}

}  // namespace

MetricValue SpearmanCorrCoef::compute() const {
  constexpr double kLeastSpread = 1e-6;
  const at::Tensor predictions = predictions_.tensor(), targets = targets_.tensor();
  std::vector<double> values;
  for (std::int64_t output = 0; output < outputs_; ++output) {
    const at::Tensor given = predictions.select(1, output), wanted = targets.select(1, output);
    if (given.isnan().any().item<bool>() || wanted.isnan().any().item<bool>()) {
      values.push_back(detail::kNaN);
      continue;
    }
    const at::Tensor x = centered_ranks(given), y = centered_ranks(wanted);
    const double spread = x.square().mean().mul(y.square().mean()).sqrt().item<double>();
    values.push_back(std::clamp(x.mul(y).mean().item<double>() / (spread + kLeastSpread), -1.0, 1.0));
  }
  return one_or_all(std::move(values));
}

void detail::RowMetric::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_same_shape(metric_, predictions, targets);
  check_same_device(metric_, predictions, targets);
  if (targets.dim() != 2) {
    throw MisuseError(
        format("{} takes predictions and targets of the shape [N, D], and got {}.", metric_, c10::str(targets.sizes())));
  }
  const at::Tensor p = predictions.detach().to(at::kDouble), q = targets.detach().to(at::kDouble);
  at::Tensor of_rows;
  if (kind_ == Kind::kCosine) {
    of_rows = p.mul(q).sum(1).div(p.norm(2, 1).mul(q.norm(2, 1)));
  } else if (kind_ == Kind::kDivergenceOfLogs) {
    of_rows = p.exp().mul(p.sub(q)).sum(1);
  } else {
    const at::Tensor part = p.div(p.sum(1, true));
    of_rows = at::xlogy(part, part.div(q.div(q.sum(1, true)))).masked_fill(part.eq(0), 0).sum(1);
  }
  sum_.take(of_rows.sum());
  count_.take(static_cast<double>(targets.size(0)));
}

MetricValue detail::RowMetric::compute() const {
  return reduction_ == Reduction::kSum ? sum_.value() : sum_.value() / count_.value();
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Where what stands in the state of an aggregator.
constexpr std::size_t kNans = 0, kUpdates = 1, kFirst = 2;

template <class O>
void declare_nan_strategy(OptionList<O>& options) {
  options.add("nan_strategy", &O::nan_strategy, "NaN is ignored with a warning or without, an error, or used");
}

}  // namespace

namespace detail {

Aggregator::Aggregator(const char* metric, Kind kind, NanStrategy nan_strategy, std::int64_t window)
    : metric_(metric),
      kind_(kind),
      nan_strategy_(nan_strategy),
      window_(window),
      numbers_(add_numbers("totals", {2 + 2 * std::max<std::int64_t>(window, 1)})) {}

Aggregator::Aggregator(const char* metric, Kind kind, const AggregatorOptions& options)
    : Aggregator(metric, kind, checked(metric, options).nan_strategy, 0) {}

Aggregator::Aggregator(const char* metric, Kind kind, const RunningOptions& options)
    : Aggregator(metric, kind, checked(metric, options).nan_strategy, options.window) {}

std::string Aggregator::state_kind() const {
  return format("values of kind {}, of the last {} updates, NaN: {}", static_cast<int>(kind_), window_,
                choice_name(nan_strategy_));
}

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

void Aggregator::update(double value, double weight) {
  take(at::scalar_tensor(value, at::kDouble), at::scalar_tensor(weight, at::kDouble));
}

void Aggregator::update(const at::Tensor& values) { take(values, at::ones({}, values.options().dtype(at::kDouble))); }

void Aggregator::update(const at::Tensor& values, const at::Tensor& weights) {
  if (!weights.defined()) return update(values);
  if (kind_ != Kind::kMean) throw MisuseError(format("{} takes values only, and got weights too.", metric_));
  check_same_device(metric_, values, weights);
  if (!at::is_expandable_to(weights.sizes(), values.sizes())) {
    throw MisuseError(format("{} takes weights that stretch to the shape of the values, and got {} for {}.", metric_,
                             c10::str(weights.sizes()), c10::str(values.sizes())));
  }
  take(values, weights.detach().to(at::kDouble));
}

void Aggregator::take(const at::Tensor& values, const at::Tensor& weights) {
  const at::Tensor stretched = weights.expand(values.sizes());
  const at::Tensor numbers = values.detach().to(at::kDouble);
  const bool keeps_nan = nan_strategy_ == NanStrategy::kDisable;
  const at::Tensor nan = keeps_nan ? at::zeros_like(numbers, at::kBool) : numbers.isnan().bitwise_or(stretched.isnan());
  const at::Tensor nans = nan.sum().to(at::kDouble);
  if (nan_strategy_ == NanStrategy::kError && nans.is_cpu() && nans.item<double>() > 0) throw_nan(nans.item<double>());
  const at::Tensor taken = (kind_ == Kind::kMean ? numbers.mul(stretched) : numbers).masked_fill(nan, nothing()).reshape({-1});
  const at::Tensor all = at::cat({taken, at::full({1}, nothing(), taken.options())});
  const at::Tensor value = kind_ == Kind::kMin ? all.min() : kind_ == Kind::kMax ? all.max() : all.sum();
  const at::Tensor weight = stretched.masked_fill(nan, 0).sum();
  const at::Tensor record = at::stack({nans, at::ones_like(value), value, weight});
  take_numbers(at::constant_pad_nd(record, {0, 2 * std::max<std::int64_t>(window_ - 1, 0)}));
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
  const auto entry = static_cast<std::size_t>(total[kUpdates]) % static_cast<std::size_t>(window_);
  total[kNans] += batch[kNans];
  ++total[kUpdates];
  total[kFirst + 2 * entry] = batch[kFirst];
  total[kFirst + 2 * entry + 1] = batch[kFirst + 1];
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
