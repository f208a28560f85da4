#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/metric.h"

// Metrics of numbers, with the names, defaults and results of torchmetrics 1.9. All count in double, whatever the inputs are.

namespace levin {

/// How the values of several outputs become one.
enum class MultiOutput : std::uint8_t {
  kUniformAverage,    ///< their mean
  kRawValues,         ///< not: one value for each
  kVarianceWeighted,  ///< their mean, weighted by the variances of the targets
};
template <>
inline constexpr std::array kChoices<MultiOutput> = {Choice{MultiOutput::kUniformAverage, "uniform_average"},
                                                     Choice{MultiOutput::kRawValues, "raw_values"},
                                                     Choice{MultiOutput::kVarianceWeighted, "variance_weighted"}};

/// Over samples.
enum class Reduction : std::uint8_t { kMean, kSum };
template <>
inline constexpr std::array kChoices<Reduction> = {Choice{Reduction::kMean, "mean"}, Choice{Reduction::kSum, "sum"}};

namespace detail {

/// A mean over samples of an error of each output.
class LEVIN_API MeanError : public Metric {
 public:
  /// Predictions and targets of one shape: with one output any, else [N, outputs]. Throws MisuseError on another.
  void update(const at::Tensor& predictions, const at::Tensor& targets) final;
  std::string state_kind() const final;
  /// One value, or [outputs]. NaN of nothing.
  MetricValue compute() const final;

 protected:
  enum class Kind : std::uint8_t { kSquared, kRootOfSquared, kAbsolute, kPercentage };
  MeanError(const char* metric, Kind kind, std::int64_t outputs = 1);

 private:
  std::string metric_;
  Kind kind_;
  std::int64_t outputs_;
  MetricNumbers sums_;
  MetricNumbers count_ = add_numbers("count");
};

/// Scores of pairs of numbers (x, y), of which it stores counts, means, sums of squared deviations and of their products. These
/// add up without loss however large the means are (Chan, Golub, LeVeque 1983).
class LEVIN_API PairMoments : public Metric {
 public:
  /// Predictions and targets [N], or [N, outputs]. Throws MisuseError on other shapes.
  void update(const at::Tensor& predictions, const at::Tensor& targets) final;
  std::string state_kind() const final;
  MetricValue compute() const final;

 protected:
  enum class Kind : std::uint8_t { kR2, kExplainedVariance, kPearson };
  PairMoments(const char* metric, Kind kind, std::int64_t outputs, MultiOutput multi_output = MultiOutput::kRawValues,
              std::int64_t adjusted = 0);
  void merge_numbers(std::span<double> total, std::span<const double> more) const final;

 private:
  /// x is the error (target - prediction), or, for Pearson's, the prediction; y is the target.
  bool of_errors() const { return kind_ != Kind::kPearson; }

  std::string metric_;
  Kind kind_;
  std::int64_t outputs_;
  MultiOutput multi_output_;
  std::int64_t adjusted_;
  MetricNumbers numbers_;  ///< the number of samples; then of each output: means of x and y, squares of x and y, products
};

}  // namespace detail

struct LEVIN_API MeanSquaredErrorOptions {
  bool squared = true;  ///< false: its root
  std::int64_t num_outputs = 1;

  static void declare(OptionList<MeanSquaredErrorOptions>& options);
};

/// The mean of squared differences, or its root.
class LEVIN_API MeanSquaredError final : public detail::MeanError {
 public:
  using Options = MeanSquaredErrorOptions;

  explicit MeanSquaredError(MeanSquaredErrorOptions options = {});
};

struct LEVIN_API OutputsOptions {
  std::int64_t num_outputs = 1;

  static void declare(OptionList<OutputsOptions>& options);
};
using MeanAbsoluteErrorOptions = OutputsOptions;
using PearsonCorrCoefOptions = OutputsOptions;
using SpearmanCorrCoefOptions = OutputsOptions;

/// The mean of absolute differences.
class LEVIN_API MeanAbsoluteError final : public detail::MeanError {
 public:
  using Options = MeanAbsoluteErrorOptions;

  explicit MeanAbsoluteError(MeanAbsoluteErrorOptions options = {});
};

/// The mean of absolute differences, each as a share of the target's size (at least 1.17e-6).
class LEVIN_API MeanAbsolutePercentageError final : public detail::MeanError {
 public:
  MeanAbsolutePercentageError();
};

struct LEVIN_API R2ScoreOptions {
  std::int64_t num_outputs = 1;
  std::int64_t adjusted = 0;  ///< independent regressors, for the adjusted score
  MultiOutput multioutput = MultiOutput::kUniformAverage;

  static void declare(OptionList<R2ScoreOptions>& options);
};

/// The share of the targets' variance that predictions explain. Of constant targets 1 where all is right, else 0; NaN of fewer
/// than two samples. (torchmetrics takes every sum of squares below 1e-4 for 0, so that what is measured in small units has a
/// score of 1; it has the number of outputs from the first batch.)
class LEVIN_API R2Score final : public detail::PairMoments {
 public:
  using Options = R2ScoreOptions;

  explicit R2Score(R2ScoreOptions options = {});
};

struct LEVIN_API ExplainedVarianceOptions {
  std::int64_t num_outputs = 1;
  MultiOutput multioutput = MultiOutput::kUniformAverage;

  static void declare(OptionList<ExplainedVarianceOptions>& options);
};

/// As R2Score, without the predictions' mean error.
class LEVIN_API ExplainedVariance final : public detail::PairMoments {
 public:
  using Options = ExplainedVarianceOptions;

  explicit ExplainedVariance(ExplainedVarianceOptions options = {});
};

/// The linear correlation of predictions and targets; NaN where one of them is constant.
class LEVIN_API PearsonCorrCoef final : public detail::PairMoments {
 public:
  using Options = PearsonCorrCoefOptions;

  explicit PearsonCorrCoef(PearsonCorrCoefOptions options = {});
};

/// The correlation of ranks; 0 where predictions or targets are constant. Its state grows with the data.
class LEVIN_API SpearmanCorrCoef final : public Metric {
 public:
  using Options = SpearmanCorrCoefOptions;

  explicit SpearmanCorrCoef(SpearmanCorrCoefOptions options = {});
  /// Predictions and targets [N], or [N, outputs]. Throws MisuseError on other shapes.
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  MetricValue compute() const override;

 private:
  std::int64_t outputs_;
  MetricSamples predictions_;
  MetricSamples targets_;
};

namespace detail {

/// A mean or a sum over rows of a number of each.
class LEVIN_API RowMetric : public Metric {
 public:
  /// Predictions and targets of the shape [N, D]. Throws MisuseError on other shapes.
  void update(const at::Tensor& predictions, const at::Tensor& targets) final;
  /// The mean of nothing is NaN.
  MetricValue compute() const final;

 protected:
  enum class Kind : std::uint8_t { kCosine, kDivergence, kDivergenceOfLogs };
  RowMetric(const char* metric, Kind kind, Reduction reduction) : metric_(metric), kind_(kind), reduction_(reduction) {}

 private:
  std::string metric_;
  Kind kind_;
  Reduction reduction_;
  MetricNumbers sum_ = add_numbers("sum");
  MetricNumbers count_ = add_numbers("count");
};

}  // namespace detail

struct LEVIN_API CosineSimilarityOptions {
  Reduction reduction = Reduction::kSum;

  static void declare(OptionList<CosineSimilarityOptions>& options);
};

/// The cosine of the angle between a row of predictions and one of targets; NaN with a row of zeros.
class LEVIN_API CosineSimilarity final : public detail::RowMetric {
 public:
  using Options = CosineSimilarityOptions;

  explicit CosineSimilarity(CosineSimilarityOptions options = {})
      : RowMetric("CosineSimilarity", Kind::kCosine, options.reduction) {}
};

struct LEVIN_API KLDivergenceOptions {
  bool log_prob = false;  ///< rows are logarithms of probabilities; else they are divided by their sums
  Reduction reduction = Reduction::kMean;

  static void declare(OptionList<KLDivergenceOptions>& options);
};

/// The Kullback-Leibler divergence of a row of P (predictions) from one of Q (targets).
class LEVIN_API KLDivergence final : public detail::RowMetric {
 public:
  using Options = KLDivergenceOptions;

  explicit KLDivergence(KLDivergenceOptions options = {})
      : RowMetric("KLDivergence", options.log_prob ? Kind::kDivergenceOfLogs : Kind::kDivergence, options.reduction) {}
};

// Numbers that are gathered unchanged.

/// What happens to values that are NaN, and to those whose weight is.
enum class NanStrategy : std::uint8_t {
  kWarn,    ///< left out, with a warning when the value is computed
  kError,   ///< an error; of values on a device when the value is computed
  kIgnore,  ///< left out
  kDisable  ///< used unchanged
};
template <>
inline constexpr std::array kChoices<NanStrategy> = {Choice{NanStrategy::kWarn, "warn"}, Choice{NanStrategy::kError, "error"},
                                                     Choice{NanStrategy::kIgnore, "ignore"},
                                                     Choice{NanStrategy::kDisable, "disable"}};

struct LEVIN_API AggregatorOptions {
  NanStrategy nan_strategy = NanStrategy::kWarn;

  static void declare(OptionList<AggregatorOptions>& options);
};

struct LEVIN_API RunningOptions {
  std::int64_t window = 5;  ///< updates
  NanStrategy nan_strategy = NanStrategy::kWarn;

  static void declare(OptionList<RunningOptions>& options);
};

namespace detail {

/// What metrics of plain numbers have in common: a sum of values and one of weights, or the least or largest value.
class LEVIN_API Aggregator : public Metric {
 public:
  using Options = AggregatorOptions;

  /// Values of any shape.
  void update(const at::Tensor& values);
  void update(double value) { update(value, 1.0); }
  /// Each value with its weight, or with 1 where `weights` is undefined; weights have a shape that stretches to that of the
  /// values. Throws MisuseError where the metric takes no weights, or on NaN, as nan_strategy says.
  void update(const at::Tensor& values, const at::Tensor& weights) override;
  std::string state_kind() const override;
  /// Throws as update() does of what was on a device, and warns.
  MetricValue compute() const override;

 protected:
  enum class Kind : std::uint8_t { kMean, kSum, kMin, kMax };
  Aggregator(const char* metric, Kind kind, const AggregatorOptions& options);
  Aggregator(const char* metric, Kind kind, const RunningOptions& options);

  void update(double value, double weight);
  void merge_numbers(std::span<double> total, std::span<const double> more) const final;
  void take_batch(std::span<double> total, std::span<const double> batch, bool first) const final;

 private:
  Aggregator(const char* metric, Kind kind, NanStrategy nan_strategy, std::int64_t window);
  void take(const at::Tensor& values, const at::Tensor& weights);
  /// What a value starts with, and is with one more.
  double nothing() const;
  double folded(double total, double value) const;
  [[noreturn]] void throw_nan(double count) const;

  std::string metric_;
  Kind kind_;
  NanStrategy nan_strategy_;
  std::int64_t window_;    ///< of so many of the last updates only; 0: of all
  MetricNumbers numbers_;  ///< NaN left out, updates, then a value and its weight for each entry of the window
};

}  // namespace detail

/// The mean of values, weighted: update(values), update(values, weights), or update(1.5). NaN of nothing. (With nan_strategy
/// "disable" torchmetrics takes every weight for 1.)
class LEVIN_API MeanMetric final : public detail::Aggregator {
 public:
  explicit MeanMetric(const AggregatorOptions& options = {}) : Aggregator("MeanMetric", Kind::kMean, options) {}
  using Aggregator::update;  // with update(value, weight)
};

/// The sum of values. 0 of nothing.
class LEVIN_API SumMetric final : public detail::Aggregator {
 public:
  explicit SumMetric(const AggregatorOptions& options = {}) : Aggregator("SumMetric", Kind::kSum, options) {}
};

/// The least value. Infinity of nothing.
class LEVIN_API MinMetric final : public detail::Aggregator {
 public:
  explicit MinMetric(const AggregatorOptions& options = {}) : Aggregator("MinMetric", Kind::kMin, options) {}
};

/// The largest value. -infinity of nothing.
class LEVIN_API MaxMetric final : public detail::Aggregator {
 public:
  explicit MaxMetric(const AggregatorOptions& options = {}) : Aggregator("MaxMetric", Kind::kMax, options) {}
};

/// MeanMetric of the last updates; of several ranks, of the last of each.
class LEVIN_API RunningMean final : public detail::Aggregator {
 public:
  using Options = RunningOptions;

  explicit RunningMean(const RunningOptions& options = {}) : Aggregator("RunningMean", Kind::kMean, options) {}
};

/// SumMetric of the last updates; of several ranks, of the last of each.
class LEVIN_API RunningSum final : public detail::Aggregator {
 public:
  using Options = RunningOptions;

  explicit RunningSum(const RunningOptions& options = {}) : Aggregator("RunningSum", Kind::kSum, options) {}
};

}  // namespace levin
