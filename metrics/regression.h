#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/metric.h"
#include "levin/core/options/option_type.h"
#include "levin/core/options/options.h"

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
  std::string state_kind() const final { return state_kind_; }
  /// One value, or [outputs]. NaN of nothing.
  MetricValue compute() const override;

 protected:
  enum class Kind : std::uint8_t { kSquared, kAbsolute, kPercentage };
  MeanError(const char* metric, Kind kind, std::int64_t outputs = 1);

 private:
  std::string metric_;
  Kind kind_;
  std::int64_t outputs_;
  std::string state_kind_;
  MetricNumbers sums_;
  MetricNumbers count_ = add_numbers("count");
};

/// Counts, means, sums of squared deviations and of their products of pairs of numbers (x, y), which add up without loss
/// however large the means are (Chan, Golub, LeVeque 1983).
class LEVIN_API PairMoments : public Metric {
 public:
  /// Predictions and targets [N], or [N, outputs]. Throws MisuseError on other shapes.
  void update(const at::Tensor& predictions, const at::Tensor& targets) final;
  std::string state_kind() const final { return state_kind_; }

 protected:
  /// Of each output. A sum of squares that comes from rounding only is 0.
  struct Moments {
    double count, mean_x, mean_y, squares_x, squares_y, products;
  };
  /// x is the prediction, or the error (target - prediction); y is the target.
  enum class X : std::uint8_t { kPrediction, kError };
  PairMoments(const char* metric, X x, std::int64_t outputs);

  std::vector<Moments> moments() const;
  /// The outputs' values as `multi_output` says; `variances` are those of targets, but for a factor.
  static MetricValue combined(const std::vector<double>& scores, const std::vector<double>& variances,
                              MultiOutput multi_output);
  void merge_numbers(std::span<double> total, std::span<const double> more) const final;

 private:
  std::string metric_;
  X x_;
  std::int64_t outputs_;
  std::string state_kind_;
  MetricNumbers numbers_;  ///< the number of samples; then of each output the other five of Moments
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
  MetricValue compute() const override;

 private:
  bool squared_;
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
  MetricValue compute() const override;

 private:
  std::int64_t adjusted_;
  MultiOutput multi_output_;
};

struct LEVIN_API ExplainedVarianceOptions {
  std::int64_t num_outputs = 1;
  MultiOutput multioutput = MultiOutput::kUniformAverage;

  static void declare(OptionList<ExplainedVarianceOptions>& options);
};

/// As R2Score, but what all predictions are off by together does not count.
class LEVIN_API ExplainedVariance final : public detail::PairMoments {
 public:
  using Options = ExplainedVarianceOptions;

  explicit ExplainedVariance(ExplainedVarianceOptions options = {});
  MetricValue compute() const override;

 private:
  MultiOutput multi_output_;
};

/// The linear correlation of predictions and targets; NaN where one of them is constant.
class LEVIN_API PearsonCorrCoef final : public detail::PairMoments {
 public:
  using Options = PearsonCorrCoefOptions;

  explicit PearsonCorrCoef(PearsonCorrCoefOptions options = {});
  MetricValue compute() const override;
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
  RowMetric(const char* metric, Reduction reduction) : metric_(metric), reduction_(reduction) {}

  /// The number of each row, from doubles.
  virtual at::Tensor of_rows(const at::Tensor& predictions, const at::Tensor& targets) const = 0;

 private:
  std::string metric_;
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

  explicit CosineSimilarity(CosineSimilarityOptions options = {}) : RowMetric("CosineSimilarity", options.reduction) {}

 private:
  at::Tensor of_rows(const at::Tensor& predictions, const at::Tensor& targets) const override;
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
      : RowMetric("KLDivergence", options.reduction), log_prob_(options.log_prob) {}

 private:
  at::Tensor of_rows(const at::Tensor& predictions, const at::Tensor& targets) const override;

  bool log_prob_;
};

}  // namespace levin
