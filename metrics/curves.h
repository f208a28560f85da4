#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/metric.h"
#include "levin/metrics/classification.h"

namespace levin {

/// The thresholds of a curve: every score that occurs (none), so many from 0 to 1, or these.
struct LEVIN_API Thresholds {
  std::vector<double> list;

  Thresholds() = default;
  Thresholds(std::int64_t count);
  Thresholds(int count) : Thresholds(static_cast<std::int64_t>(count)) {}
  Thresholds(std::initializer_list<double> thresholds) : list(thresholds) {}
  Thresholds(std::vector<double> thresholds) : list(std::move(thresholds)) {}
};

/// In YAML a number, a list of numbers from 0 to 1, or null.
template <>
struct LEVIN_API OptionType<Thresholds> {
  static Thresholds read(const Value& value);
  static Value write(const Thresholds& thresholds);
  static std::string name() { return "int, list of float or null"; }
  static Value schema();
};

namespace detail {

/// Counts of true and false positives as the threshold falls.
struct LEVIN_API Curve {
  struct Point {
    double fp;
    double tp;
  };
  std::vector<Point> points{};
  double positives = 0;
  double negatives = 0;
};

/// Stores the points of a curve: with thresholds, how many probabilities lie between each two; without, all of them.
class LEVIN_API CurveMetric : public Metric {
 public:
  /// Predictions are scores: multiclass [N, C, …] with targets [N, …], else of the shape of the targets. Errors as those of
  /// ClassCounter::update().
  void update(const at::Tensor& predictions, const at::Tensor& targets) final;
  std::string state_kind() const final;
  MetricValue compute() const final;

 protected:
  CurveMetric(ClassTask task, Average average, const Thresholds& thresholds);

  /// NaN: left out of a mean.
  virtual double area(const Curve& curve) const = 0;
  bool exact() const { return thresholds_.empty(); }
  bool multiclass() const { return task_.task == Task::kMulticlass; }

 private:
  std::vector<Curve> curves(bool together) const;

  ClassTask task_;
  Average average_;
  std::vector<double> thresholds_;        ///< in order
  std::optional<MetricNumbers> between_;  ///< [classes, 2, thresholds + 1]: of the others, of the class itself
  MetricNumbers wrong_ = add_numbers("wrong");
  std::optional<MetricSamples> scores_;
  std::optional<MetricSamples> labels_;  ///< -1: left out, -2: there is no such label, or the score is NaN
};

}  // namespace detail

struct LEVIN_API AUROCOptions {
  std::optional<Task> task = std::nullopt;
  Thresholds thresholds = {};  ///< none: exact, and the state grows with the data
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> num_labels = std::nullopt;
  Average average = Average::kMacro;             ///< micro: multilabel only
  std::optional<double> max_fpr = std::nullopt;  ///< binary: of false positive rates up to it, scaled to 0.5 … 1
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<AUROCOptions>& options);
};

/// The area under the curve of true over false positive rates: how often a sample of a class has a higher score than another.
/// 0 for a class that has no or only samples.
class LEVIN_API AUROC final : public detail::CurveMetric {
 public:
  using Options = AUROCOptions;

  explicit AUROC(const AUROCOptions& options);

 private:
  double area(const detail::Curve& curve) const override;

  std::optional<double> max_fpr_;
};

struct LEVIN_API AveragePrecisionOptions {
  std::optional<Task> task = std::nullopt;
  Thresholds thresholds = {};  ///< none: exact, and the state grows with the data
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> num_labels = std::nullopt;
  Average average = Average::kMacro;  ///< micro: multilabel only
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<AveragePrecisionOptions>& options);
};

/// The mean of precision over recall. A class (of multiclass, exact) without a sample is NaN and left out of a mean; a label
/// without one is 0. (torchmetrics has 0 also for classes, when all samples are of class 0.)
class LEVIN_API AveragePrecision final : public detail::CurveMetric {
 public:
  using Options = AveragePrecisionOptions;

  explicit AveragePrecision(const AveragePrecisionOptions& options);

 private:
  double area(const detail::Curve& curve) const override;
};

/// Over bins, what the differences of confidence and accuracy become.
enum class CalibrationNorm : std::uint8_t {
  kL1,  ///< their mean
  kL2,  ///< the root of the mean of their squares
  kMax  ///< the largest
};
template <>
inline constexpr std::array kChoices<CalibrationNorm> = {Choice{CalibrationNorm::kL1, "l1"}, Choice{CalibrationNorm::kL2, "l2"},
                                                         Choice{CalibrationNorm::kMax, "max"}};

struct LEVIN_API CalibrationErrorOptions {
  std::optional<Task> task = std::nullopt;
  std::int64_t n_bins = 15;
  CalibrationNorm norm = CalibrationNorm::kL1;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<CalibrationErrorOptions>& options);
};

/// How far confidence is from accuracy, over bins of confidence; exactly 1 has a separate bin. Binary or multiclass. Its state
/// has a fixed size (that of torchmetrics grows with the data).
class LEVIN_API CalibrationError final : public Metric {
 public:
  using Options = CalibrationErrorOptions;

  explicit CalibrationError(const CalibrationErrorOptions& options);
  /// As CurveMetric::update().
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  std::string state_kind() const override;
  MetricValue compute() const override;

 private:
  detail::ClassTask task_;
  CalibrationNorm norm_;
  std::int64_t size_;   ///< bins
  MetricNumbers bins_;  ///< [size, 3]: samples, their confidence, how many are right
  MetricNumbers wrong_ = add_numbers("wrong");
};

}  // namespace levin
