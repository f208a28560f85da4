#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/metric.h"

// Metrics of labels and of their probabilities, with the names, defaults and results of torchmetrics 1.9. Without `task` it is
// multiclass where num_classes is given, multilabel where num_labels is, else binary. A score above `threshold` is a yes.
// Samples (labels, for multilabel) that have `ignore_index` as target are left out.

namespace levin {

/// What is predicted of a sample.
enum class Task : std::uint8_t {
  kBinary,      ///< yes or no
  kMulticlass,  ///< one of several classes
  kMultilabel   ///< yes or no for each of several labels
};
template <>
inline constexpr std::array kChoices<Task> = {Choice{Task::kBinary, "binary"}, Choice{Task::kMulticlass, "multiclass"},
                                              Choice{Task::kMultilabel, "multilabel"}};

/// How the values of classes or labels become one.
enum class Average : std::uint8_t {
  kMicro,     ///< of all counts together
  kMacro,     ///< the mean over classes
  kWeighted,  ///< the mean over classes, each as often as it is the label
  kNone       ///< not: one value for each class
};
template <>
inline constexpr std::array kChoices<Average> = {Choice{Average::kMicro, "micro"}, Choice{Average::kMacro, "macro"},
                                                 Choice{Average::kWeighted, "weighted"}, Choice{Average::kNone, "none"}};

/// What the scores of a prediction are.
enum class Scores : std::uint8_t {
  kAuto,           ///< logits where a batch has one outside of 0 … 1, probabilities else: torchmetrics' way
  kProbabilities,  ///< taken as they are
  kLogits          ///< always what a sigmoid or softmax is to be taken of
};
template <>
inline constexpr std::array kChoices<Scores> = {Choice{Scores::kAuto, "auto"}, Choice{Scores::kProbabilities, "probabilities"},
                                                Choice{Scores::kLogits, "logits"}};

namespace detail {

/// What all metrics of classes are told.
struct LEVIN_API ClassTask {
  std::string metric;  ///< its name
  Task task = Task::kBinary;
  std::int64_t count = 1;  ///< of classes or labels
  double threshold = 0.5;
  std::int64_t top_k = 1;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Scores scores = Scores::kAuto;

  std::string str() const;
};

/// How often a class or label was predicted rightly (true) or wrongly (false), and predicted (positive) or not (negative).
struct LEVIN_API ClassCounts {
  double tp = 0;
  double fp = 0;
  double tn = 0;
  double fn = 0;
};

/// A metric of labels that counts in a batch how often which was predicted for which.
class LEVIN_API ClassCounter : public Metric {
 public:
  /// Predictions are scores or labels. multiclass: scores [N, C, …] or labels [N, …], targets labels [N, …]; binary: both of
  /// the same shape; multilabel: both [N, L, …]. Throws MisuseError on other shapes, NaN, and labels that there are not; of
  /// what is on a device compute() does.
  void update(const at::Tensor& predictions, const at::Tensor& targets) final;
  std::string state_kind() const final;

 protected:
  /// `pairs`: with several classes, counts each pair of label and prediction; else hits and mistakes of each class.
  explicit ClassCounter(ClassTask task, bool pairs = false);

  const ClassTask& task() const { return task_; }
  /// [labels, 2, 2] of label and prediction; with several classes [classes, classes]. Throws MisuseError when labels or scores
  /// on a device were none.
  std::span<const double> table() const;
  /// The counts of each class or label, from a counter without pairs. Throws as table() does.
  std::vector<ClassCounts> class_counts() const;

 private:
  void update_on_device(const at::Tensor& given, const at::Tensor& targets);

  ClassTask task_;
  bool pairs_;
  MetricNumbers counts_;
  MetricNumbers wrong_ = add_numbers("wrong");  ///< labels and scores on a device that were none
};

}  // namespace detail

/// What metrics that score each class are told.
struct LEVIN_API ClassScoreOptions {
  std::optional<Task> task = std::nullopt;
  double threshold = 0.5;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> num_labels = std::nullopt;
  Average average = Average::kMicro;
  std::int64_t top_k = 1;  ///< multiclass: right is a label that is among so many highest scores; of equal ones the first
  std::optional<std::int64_t> ignore_index = std::nullopt;
  double zero_division = 0;  ///< of a class of which there is nothing to divide by
  Scores scores = Scores::kAuto;

  static void declare(OptionList<ClassScoreOptions>& options);
};

namespace detail {

/// A score of each class, and its average.
class LEVIN_API ClassScore : public ClassCounter {
 public:
  using Options = ClassScoreOptions;

  MetricValue compute() const final;

 protected:
  enum class Kind : std::uint8_t { kAccuracy, kHammingDistance, kSpecificity, kPrecision, kRecall, kFBeta, kJaccard };
  ClassScore(const char* metric, Kind kind, const ClassScoreOptions& options);
  ClassScore(ClassTask task, Kind kind, Average average, double zero_division, double beta = 1);

 private:
  double score(const ClassCounts& counts) const;

  Kind kind_;
  Average average_;
  double zero_division_;
  double beta_squared_;
};

}  // namespace detail

/// The share of right predictions; with an average over classes, of the samples of each class.
class LEVIN_API Accuracy final : public detail::ClassScore {
 public:
  explicit Accuracy(const ClassScoreOptions& options) : ClassScore("Accuracy", Kind::kAccuracy, options) {}
};

/// 1 - Accuracy.
class LEVIN_API HammingDistance final : public detail::ClassScore {
 public:
  explicit HammingDistance(const ClassScoreOptions& options) : ClassScore("HammingDistance", Kind::kHammingDistance, options) {}
};

/// Of what is not of a class, the share that is not predicted as such.
class LEVIN_API Specificity final : public detail::ClassScore {
 public:
  explicit Specificity(const ClassScoreOptions& options) : ClassScore("Specificity", Kind::kSpecificity, options) {}
};

/// Of what is predicted as a class, the share that is of it.
class LEVIN_API Precision final : public detail::ClassScore {
 public:
  explicit Precision(const ClassScoreOptions& options) : ClassScore("Precision", Kind::kPrecision, options) {}
};

/// Of what is of a class, the share that is predicted as such.
class LEVIN_API Recall final : public detail::ClassScore {
 public:
  explicit Recall(const ClassScoreOptions& options) : ClassScore("Recall", Kind::kRecall, options) {}
};

/// The harmonic mean of precision and recall.
class LEVIN_API F1Score final : public detail::ClassScore {
 public:
  explicit F1Score(const ClassScoreOptions& options) : ClassScore("F1Score", Kind::kFBeta, options) {}
};

struct LEVIN_API FBetaScoreOptions {
  std::optional<Task> task = std::nullopt;
  double beta = 1.0;  ///< recall counts so many times as much as precision
  double threshold = 0.5;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> num_labels = std::nullopt;
  Average average = Average::kMicro;
  std::int64_t top_k = 1;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  double zero_division = 0;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<FBetaScoreOptions>& options);
};

/// The harmonic mean of precision and recall, weighted.
class LEVIN_API FBetaScore final : public detail::ClassScore {
 public:
  using Options = FBetaScoreOptions;

  explicit FBetaScore(const FBetaScoreOptions& options);
};

struct LEVIN_API JaccardIndexOptions {
  std::optional<Task> task = std::nullopt;
  double threshold = 0.5;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> num_labels = std::nullopt;
  Average average = Average::kMacro;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  double zero_division = 0;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<JaccardIndexOptions>& options);
};

/// What is of a class and predicted as such, as a share of what is either (intersection over union).
class LEVIN_API JaccardIndex final : public detail::ClassScore {
 public:
  using Options = JaccardIndexOptions;

  explicit JaccardIndex(const JaccardIndexOptions& options);
};

struct LEVIN_API MatthewsCorrCoefOptions {
  std::optional<Task> task = std::nullopt;
  double threshold = 0.5;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> num_labels = std::nullopt;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<MatthewsCorrCoefOptions>& options);
};

/// The correlation of labels and predictions. Of two classes, 1 where all is right and -1 where all is wrong; else 0 where only
/// one class occurs among labels or predictions, as scikit-learn and everybody else says. (torchmetrics gives a number that
/// depends on how many samples there are.)
class LEVIN_API MatthewsCorrCoef final : public detail::ClassCounter {
 public:
  using Options = MatthewsCorrCoefOptions;

  explicit MatthewsCorrCoef(const MatthewsCorrCoefOptions& options);
  MetricValue compute() const override;
};

/// By what counts of a confusion matrix are divided.
enum class Normalize : std::uint8_t {
  kNone,
  kTrue,  ///< by how often the label occurs
  kPred,  ///< by how often the prediction occurs
  kAll    ///< by the number of samples
};
template <>
inline constexpr std::array kChoices<Normalize> = {Choice{Normalize::kNone, "none"}, Choice{Normalize::kTrue, "true"},
                                                   Choice{Normalize::kPred, "pred"}, Choice{Normalize::kAll, "all"}};

struct LEVIN_API ConfusionMatrixOptions {
  std::optional<Task> task = std::nullopt;
  double threshold = 0.5;
  std::optional<std::int64_t> num_classes = std::nullopt;
  std::optional<std::int64_t> num_labels = std::nullopt;
  Normalize normalize = Normalize::kNone;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<ConfusionMatrixOptions>& options);
};

/// How often each label (row) was predicted as which (column): [2, 2], [classes, classes] or [labels, 2, 2]. The share of none
/// is 0.
class LEVIN_API ConfusionMatrix final : public detail::ClassCounter {
 public:
  using Options = ConfusionMatrixOptions;

  explicit ConfusionMatrix(const ConfusionMatrixOptions& options);
  MetricValue compute() const override;

 private:
  Normalize normalize_;
};

/// How much a wrong class costs.
enum class KappaWeights : std::uint8_t {
  kNone,      ///< as much as any other
  kLinear,    ///< its distance from the label
  kQuadratic  ///< the square of that
};
template <>
inline constexpr std::array kChoices<KappaWeights> = {Choice{KappaWeights::kNone, "none"},
                                                      Choice{KappaWeights::kLinear, "linear"},
                                                      Choice{KappaWeights::kQuadratic, "quadratic"}};

struct LEVIN_API CohenKappaOptions {
  std::optional<Task> task = std::nullopt;
  double threshold = 0.5;
  std::optional<std::int64_t> num_classes = std::nullopt;
  KappaWeights weights = KappaWeights::kNone;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  Scores scores = Scores::kAuto;

  static void declare(OptionList<CohenKappaOptions>& options);
};

/// How much more labels and predictions agree than by chance. Binary or multiclass. NaN where chance cannot be told.
class LEVIN_API CohenKappa final : public detail::ClassCounter {
 public:
  using Options = CohenKappaOptions;

  explicit CohenKappa(const CohenKappaOptions& options);
  MetricValue compute() const override;

 private:
  KappaWeights weights_;
};

/// Where a curve is looked at: at every score that occurs (none), at so many places from 0 to 1, or at these.
struct LEVIN_API Thresholds {
  std::vector<double> list;

  Thresholds() = default;
  Thresholds(std::int64_t count);
  Thresholds(int count) : Thresholds(static_cast<std::int64_t>(count)) {}
  Thresholds(std::initializer_list<double> places) : list(places) {}
  Thresholds(std::vector<double> places) : list(std::move(places)) {}
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

/// Keeps what a curve is made of: with thresholds, how many probabilities lie between each two; without, all of them.
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
  bool exact() const { return places_.empty(); }
  bool multiclass() const { return task_.task == Task::kMulticlass; }

 private:
  std::vector<Curve> curves(bool together) const;

  ClassTask task_;
  Average average_;
  std::vector<double> places_;            ///< in order
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

/// How far confidence is from accuracy, over bins of confidence; exactly 1 is a bin of its own. Binary or multiclass. Its state
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
