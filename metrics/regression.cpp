#include "levin/metrics/regression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/options/registry.h"
#include "levin/metrics/class_input.h"

namespace levin {

LEVIN_REGISTER_METRIC(MeanSquaredError, "The mean of squared differences, or its root");
LEVIN_REGISTER_METRIC(MeanAbsoluteError, "The mean of absolute differences");
LEVIN_REGISTER_METRIC(MeanAbsolutePercentageError, "The mean of absolute differences as shares of the targets");
LEVIN_REGISTER_METRIC(R2Score, "The share of the targets' variance that predictions explain");
LEVIN_REGISTER_METRIC(ExplainedVariance, "The same without what all predictions are off by");
LEVIN_REGISTER_METRIC(PearsonCorrCoef, "The linear correlation of predictions and targets");
LEVIN_REGISTER_METRIC(SpearmanCorrCoef, "The correlation of the ranks of predictions and targets");
LEVIN_REGISTER_METRIC(CosineSimilarity, "The cosine of the angle between rows");
LEVIN_REGISTER_METRIC(KLDivergence, "The Kullback-Leibler divergence of rows");

namespace {

/// Calls `use` with both as plain floats, or else both as plain doubles.
template <class Use>
void with_pairs(const at::Tensor& predictions, const at::Tensor& targets, Use use) {
  if (predictions.scalar_type() == at::kFloat && targets.scalar_type() == at::kFloat) {
    use(detail::Plain<float>(predictions).data(), detail::Plain<float>(targets).data());
  } else {
    use(detail::Plain<double>(predictions).data(), detail::Plain<double>(targets).data());
  }
}

/// Throws MisuseError unless both are [N], with one output, or [N, outputs].
void check_outputs(const std::string& metric, std::int64_t outputs, const at::Tensor& predictions, const at::Tensor& targets) {
  detail::check_same_shape(metric, predictions, targets);
  if (targets.dim() == 2 ? targets.size(1) == outputs : targets.dim() == 1 && outputs == 1) return;
  throw MisuseError(format("{} with num_outputs {} takes predictions and targets of the shape {}, and got {}.", metric, outputs,
                           outputs == 1 ? "[N] or [N, 1]" : format("[N, {}]", outputs), detail::shape_text(targets)));
}

}  // namespace

namespace detail {

MeanError::MeanError(const char* metric, Kind kind, std::int64_t outputs)
    : metric_(metric),
      kind_(kind),
      outputs_(outputs),
      state_kind_(format("errors of kind {} of {} outputs", static_cast<int>(kind), outputs)),
      sums_(add_numbers("sums", {outputs})) {}

void MeanError::update(const at::Tensor& predictions, const at::Tensor& targets) {
  constexpr double kLeastTarget = 1.17e-6;
  if (outputs_ == 1) {
    check_same_shape(metric_, predictions, targets);
  } else {
    check_outputs(metric_, outputs_, predictions, targets);
  }
  const std::int64_t samples = targets.numel() / outputs_;
  if (!on_cpu(metric_, predictions, targets)) {
    const at::Tensor labels = targets.detach().to(at::kDouble);
    const at::Tensor errors = predictions.detach().to(at::kDouble).sub(labels);
    const at::Tensor each = kind_ == Kind::kSquared    ? errors.square()
                            : kind_ == Kind::kAbsolute ? errors.abs()
                                                       : errors.abs().div(labels.abs().clamp_min(kLeastTarget));
    sums_.take(each.reshape({-1, outputs_}).sum(0));
  } else {
    with_pairs(predictions, targets, [&](const auto* given, const auto* wanted) {
      sums_.in_place([&](std::span<double> sums) {
        for (std::int64_t index = 0; index < targets.numel(); ++index) {
          const double target = static_cast<double>(wanted[index]);
          const double error = std::abs(static_cast<double>(given[index]) - target);
          const double value = kind_ == Kind::kSquared    ? error * error
                               : kind_ == Kind::kAbsolute ? error
                                                          : error / std::max(std::abs(target), kLeastTarget);
          sums[static_cast<std::size_t>(outputs_ == 1 ? 0 : index % outputs_)] += value;
        }
      });
    });
  }
  count_.take(static_cast<double>(samples));
}

MetricValue MeanError::compute() const {
  std::vector<double> values(sums_.values().begin(), sums_.values().end());
  for (double& value : values) value /= count_.value();
  return outputs_ == 1 ? MetricValue(values.front()) : MetricValue(std::move(values));
}

PairMoments::PairMoments(const char* metric, X x, std::int64_t outputs)
    : metric_(metric),
      x_(x),
      outputs_(outputs),
      state_kind_(format("moments of {} and targets of {} outputs", x == X::kError ? "errors" : "predictions", outputs)),
      numbers_(add_numbers("moments", {1 + 5 * outputs})) {}

void PairMoments::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_outputs(metric_, outputs_, predictions, targets);
  const bool of_errors = x_ == X::kError;
  if (!on_cpu(metric_, predictions, targets)) {
    if (targets.numel() == 0) return;
    const at::Tensor y = targets.detach().to(at::kDouble).reshape({-1, outputs_});
    const at::Tensor given = predictions.detach().to(at::kDouble).reshape({-1, outputs_});
    const at::Tensor x = of_errors ? y.sub(given) : given;
    const at::Tensor mean_x = x.mean(0), mean_y = y.mean(0);
    const at::Tensor dx = x.sub(mean_x), dy = y.sub(mean_y);
    const at::Tensor each = at::stack({mean_x, mean_y, dx.square().sum(0), dy.square().sum(0), dx.mul(dy).sum(0)}, 1);
    return take_numbers(at::cat({at::full({1}, static_cast<double>(y.size(0)), y.options()), each.reshape({-1})}));
  }
  const std::int64_t samples = targets.numel() / outputs_;
  if (samples == 0) return;
  std::vector<double> numbers(static_cast<std::size_t>(1 + 5 * outputs_));
  numbers[0] = static_cast<double>(samples);
  with_pairs(predictions, targets, [&](const auto* given, const auto* wanted) {
    for (std::int64_t output = 0; output < outputs_; ++output) {
      const auto x_of = [&](std::int64_t sample) {
        const std::int64_t index = sample * outputs_ + output;
        const double prediction = static_cast<double>(given[index]);
        return of_errors ? static_cast<double>(wanted[index]) - prediction : prediction;
      };
      const auto y_of = [&](std::int64_t sample) { return static_cast<double>(wanted[sample * outputs_ + output]); };
      double sum_x = 0, sum_y = 0;
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        sum_x += x_of(sample);
        sum_y += y_of(sample);
      }
      double* const into = numbers.data() + 1 + 5 * output;
      into[0] = sum_x / numbers[0];
      into[1] = sum_y / numbers[0];
      for (std::int64_t sample = 0; sample < samples; ++sample) {
        const double dx = x_of(sample) - into[0], dy = y_of(sample) - into[1];
        into[2] += dx * dx;
        into[3] += dy * dy;
        into[4] += dx * dy;
      }
    }
  });
  take_numbers(numbers);
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

std::vector<PairMoments::Moments> PairMoments::moments() const {
  const std::span<const double> numbers = numbers_.values();
  const double count = numbers[0];
  const auto squares = [&](double sum, double mean) {
    const double rounding = 4 * std::numeric_limits<double>::epsilon() * std::abs(mean);
    return sum <= count * rounding * rounding ? 0 : sum;
  };
  std::vector<Moments> moments;
  for (std::size_t at = 1; at < numbers.size(); at += 5) {
    moments.push_back({count, numbers[at], numbers[at + 1], squares(numbers[at + 2], numbers[at]),
                       squares(numbers[at + 3], numbers[at + 1]), numbers[at + 4]});
  }
  return moments;
}

MetricValue PairMoments::combined(const std::vector<double>& scores, const std::vector<double>& variances,
                                  MultiOutput multi_output) {
  if (multi_output == MultiOutput::kRawValues && scores.size() > 1) return scores;
  if (multi_output != MultiOutput::kVarianceWeighted) {
    return std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
  }
  return std::inner_product(scores.begin(), scores.end(), variances.begin(), 0.0) /
         std::accumulate(variances.begin(), variances.end(), 0.0);
}

}  // namespace detail

namespace {

/// 1 - missed / spread; without a spread, 1 where nothing is missed and 0 else.
double explained(double missed, double spread) {
  if (std::isnan(missed) || std::isnan(spread)) return detail::kNaN;
  if (missed == 0) return 1;
  return spread == 0 ? 0 : 1 - missed / spread;
}

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
    : MeanError("MeanSquaredError", Kind::kSquared, checked("MeanSquaredError", options).num_outputs),
      squared_(options.squared) {}

MetricValue MeanSquaredError::compute() const {
  MetricValue value = MeanError::compute();
  if (!squared_)
    std::transform(value.values.begin(), value.values.end(), value.values.begin(), [](double v) { return std::sqrt(v); });
  return value;
}

MeanAbsoluteError::MeanAbsoluteError(MeanAbsoluteErrorOptions options)
    : MeanError("MeanAbsoluteError", Kind::kAbsolute, checked("MeanAbsoluteError", options).num_outputs) {}

MeanAbsolutePercentageError::MeanAbsolutePercentageError() : MeanError("MeanAbsolutePercentageError", Kind::kPercentage) {}

R2Score::R2Score(R2ScoreOptions options)
    : PairMoments("R2Score", X::kError, checked("R2Score", options).num_outputs),
      adjusted_(options.adjusted),
      multi_output_(options.multioutput) {}

MetricValue R2Score::compute() const {
  std::vector<double> scores, variances;
  double count = 0;
  for (const Moments& output : moments()) {
    count = output.count;
    const double missed = output.squares_x + count * output.mean_x * output.mean_x;
    scores.push_back(count < 2 ? detail::kNaN : explained(missed, output.squares_y));
    variances.push_back(output.squares_y);
  }
  MetricValue value = combined(scores, variances, multi_output_);
  const auto adjusted = static_cast<double>(adjusted_);
  if (adjusted_ > 0 && adjusted < count - 1) {
    for (double& score : value.values) score = 1 - (1 - score) * (count - 1) / (count - adjusted - 1);
  }
  return value;
}

ExplainedVariance::ExplainedVariance(ExplainedVarianceOptions options)
    : PairMoments("ExplainedVariance", X::kError, checked("ExplainedVariance", options).num_outputs),
      multi_output_(options.multioutput) {}

MetricValue ExplainedVariance::compute() const {
  std::vector<double> scores, variances;
  for (const Moments& output : moments()) {
    scores.push_back(output.count == 0 ? detail::kNaN : explained(output.squares_x, output.squares_y));
    variances.push_back(output.squares_y);
  }
  return combined(scores, variances, multi_output_);
}

PearsonCorrCoef::PearsonCorrCoef(PearsonCorrCoefOptions options)
    : PairMoments("PearsonCorrCoef", X::kPrediction, checked("PearsonCorrCoef", options).num_outputs) {}

MetricValue PearsonCorrCoef::compute() const {
  std::vector<double> values;
  for (const Moments& output : moments()) {
    const double spread = std::sqrt(output.squares_x) * std::sqrt(output.squares_y);
    values.push_back(spread > 0 ? std::clamp(output.products / spread, -1.0, 1.0) : detail::kNaN);
  }
  return values.size() == 1 ? MetricValue(values.front()) : MetricValue(std::move(values));
}

SpearmanCorrCoef::SpearmanCorrCoef(SpearmanCorrCoefOptions options)
    : outputs_(checked("SpearmanCorrCoef", options).num_outputs),
      predictions_(add_samples("predictions", at::kDouble, {outputs_})),
      targets_(add_samples("targets", at::kDouble, {outputs_})) {}

void SpearmanCorrCoef::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_outputs("SpearmanCorrCoef", outputs_, predictions, targets);
  detail::on_cpu("SpearmanCorrCoef", predictions, targets);
  predictions_.append(predictions.reshape({-1, outputs_}));
  targets_.append(targets.reshape({-1, outputs_}));
}

namespace {

/// The rank of each value less the mean rank; of equal values the mean of theirs.
std::vector<double> centered_ranks(const at::Tensor& column) {
  const at::Tensor plain = column.contiguous();
  const double* values = plain.const_data_ptr<double>();
  std::vector<std::size_t> order(static_cast<std::size_t>(plain.numel()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) { return values[left] < values[right]; });
  std::vector<double> ranks(order.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && !(values[order[begin]] < values[order[end]])) ++end;
    for (std::size_t at = begin; at < end; ++at) {
      ranks[order[at]] = static_cast<double>(begin + end - 1) / 2 - static_cast<double>(order.size() - 1) / 2;
    }
  }
  return ranks;
}

}  // namespace

MetricValue SpearmanCorrCoef::compute() const {
  constexpr double kLeastSpread = 1e-6;
  const at::Tensor predictions = predictions_.tensor(), targets = targets_.tensor();
  std::vector<double> values;
  for (std::int64_t output = 0; output < outputs_; ++output) {
    if (predictions.select(1, output).isnan().any().item<bool>() || targets.select(1, output).isnan().any().item<bool>()) {
      values.push_back(detail::kNaN);
      continue;
    }
    const std::vector<double> x = centered_ranks(predictions.select(1, output)), y = centered_ranks(targets.select(1, output));
    const auto count = static_cast<double>(x.size());
    const auto mean_product = [&](const std::vector<double>& left, const std::vector<double>& right) {
      return std::inner_product(left.begin(), left.end(), right.begin(), 0.0) / count;
    };
    const double spread = std::sqrt(mean_product(x, x)) * std::sqrt(mean_product(y, y));
    values.push_back(std::clamp(mean_product(x, y) / (spread + kLeastSpread), -1.0, 1.0));
  }
  return values.size() == 1 ? MetricValue(values.front()) : MetricValue(std::move(values));
}

void detail::RowMetric::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_same_shape(metric_, predictions, targets);
  on_cpu(metric_, predictions, targets);
  if (targets.dim() != 2) {
    throw MisuseError(
        format("{} takes predictions and targets of the shape [N, D], and got {}.", metric_, shape_text(targets)));
  }
  sum_.take(of_rows(predictions.detach().to(at::kDouble), targets.detach().to(at::kDouble)).sum());
  count_.take(static_cast<double>(targets.size(0)));
}

MetricValue detail::RowMetric::compute() const {
  return reduction_ == Reduction::kSum ? sum_.value() : sum_.value() / count_.value();
}

at::Tensor CosineSimilarity::of_rows(const at::Tensor& predictions, const at::Tensor& targets) const {
  return predictions.mul(targets).sum(1).div(predictions.norm(2, 1).mul(targets.norm(2, 1)));
}

at::Tensor KLDivergence::of_rows(const at::Tensor& predictions, const at::Tensor& targets) const {
  if (log_prob_) return predictions.exp().mul(predictions.sub(targets)).sum(1);
  const at::Tensor p = predictions.div(predictions.sum(1, true)), q = targets.div(targets.sum(1, true));
  return at::xlogy(p, p.div(q)).masked_fill(p.eq(0), 0).sum(1);
}

}  // namespace levin
