#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/metric.h"
#include "levin/core/options/option_type.h"
#include "levin/core/options/options.h"

// Numbers that are gathered as they are, with the names, defaults and results of torchmetrics 1.9.

namespace levin {

/// What happens to values that are NaN, and to those whose weight is.
enum class NanStrategy : std::uint8_t {
  kWarn,    ///< left out, with a warning when the value is computed
  kError,   ///< an error; of values on a device when the value is computed
  kIgnore,  ///< left out
  kDisable  ///< taken in as they are
};
template <>
inline constexpr std::array kChoices<NanStrategy> = {Choice{NanStrategy::kWarn, "warn"}, Choice{NanStrategy::kError, "error"},
                                                     Choice{NanStrategy::kIgnore, "ignore"},
                                                     Choice{NanStrategy::kDisable, "disable"}};

struct LEVIN_API AggregatorOptions {
  NanStrategy nan_strategy = NanStrategy::kWarn;

  static void declare(OptionList<AggregatorOptions>& options);
};

namespace detail {

/// What metrics of plain numbers have in common: a sum of values and one of weights, or the least or largest value.
class LEVIN_API Aggregator : public Metric {
 public:
  using Options = AggregatorOptions;

  /// Values of any shape.
  void update(const at::Tensor& values);
  void update(double value) { update(value, 1.0); }
  /// Each value with its weight; weights have a shape that stretches to that of the values. Throws MisuseError where there are
  /// none, or on NaN, as nan_strategy says.
  void update(const at::Tensor& values, const at::Tensor& weights) override;
  std::string state_kind() const override { return state_kind_; }
  /// Throws as update() does of what was on a device, and warns.
  MetricValue compute() const override;

 protected:
  enum class Kind : std::uint8_t { kMean, kSum, kMin, kMax };
  /// `window`: of so many of the last updates only; 0: of all.
  Aggregator(const char* metric, Kind kind, NanStrategy nan_strategy, std::int64_t window = 0);

  void update(double value, double weight);
  void merge_numbers(std::span<double> total, std::span<const double> more) const final;
  void take_batch(std::span<double> total, std::span<const double> batch, bool first) const final;

 private:
  std::vector<double> empty_batch() const;
  void add(std::vector<double>& batch, double value, double weight) const;
  void take(const at::Tensor& values, const at::Tensor& weights);
  /// What a value starts with, and is with one more.
  double nothing() const;
  double folded(double total, double value) const;
  [[noreturn]] void throw_nan(double count) const;

  std::string metric_;
  Kind kind_;
  NanStrategy nan_strategy_;
  std::int64_t window_;
  std::string state_kind_;
  MetricNumbers numbers_;  ///< NaN left out, updates, then a value and its weight for each place of the window
};

}  // namespace detail

/// The mean of values, weighted: update(values), update(values, weights), or update(1.5). NaN of nothing. (With nan_strategy
/// "disable" torchmetrics takes every weight for 1.)
class LEVIN_API MeanMetric final : public detail::Aggregator {
 public:
  explicit MeanMetric(AggregatorOptions options = {})
      : Aggregator("MeanMetric", Kind::kMean, checked("MeanMetric", options).nan_strategy) {}
  using Aggregator::update;  // with update(value, weight)
};

/// The sum of values. 0 of nothing.
class LEVIN_API SumMetric final : public detail::Aggregator {
 public:
  explicit SumMetric(AggregatorOptions options = {})
      : Aggregator("SumMetric", Kind::kSum, checked("SumMetric", options).nan_strategy) {}
};

/// The least value. Infinity of nothing.
class LEVIN_API MinMetric final : public detail::Aggregator {
 public:
  explicit MinMetric(AggregatorOptions options = {})
      : Aggregator("MinMetric", Kind::kMin, checked("MinMetric", options).nan_strategy) {}
};

/// The largest value. -infinity of nothing.
class LEVIN_API MaxMetric final : public detail::Aggregator {
 public:
  explicit MaxMetric(AggregatorOptions options = {})
      : Aggregator("MaxMetric", Kind::kMax, checked("MaxMetric", options).nan_strategy) {}
};

struct LEVIN_API RunningOptions {
  std::int64_t window = 5;  ///< updates
  NanStrategy nan_strategy = NanStrategy::kWarn;

  static void declare(OptionList<RunningOptions>& options);
};

/// MeanMetric of the last updates; of several ranks, of the last of each.
class LEVIN_API RunningMean final : public detail::Aggregator {
 public:
  using Options = RunningOptions;

  explicit RunningMean(RunningOptions options = {})
      : Aggregator("RunningMean", Kind::kMean, checked("RunningMean", options).nan_strategy, options.window) {}
};

/// SumMetric of the last updates; of several ranks, of the last of each.
class LEVIN_API RunningSum final : public detail::Aggregator {
 public:
  using Options = RunningOptions;

  explicit RunningSum(RunningOptions options = {})
      : Aggregator("RunningSum", Kind::kSum, checked("RunningSum", options).nan_strategy, options.window) {}
};

}  // namespace levin
