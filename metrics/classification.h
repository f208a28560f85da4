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
  kProbabilities,  ///< used unchanged
  kLogits          ///< always what a sigmoid or softmax is to be taken of
};
template <>
inline constexpr std::array kChoices<Scores> = {Choice{Scores::kAuto, "auto"}, Choice{Scores::kProbabilities, "probabilities"},
                                                Choice{Scores::kLogits, "logits"}};

namespace detail {

/// Options of all metrics of classes.
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
  /// the same shape; multilabel: both [N, L, …]. Throws MisuseError on other shapes, NaN, and labels out of range; of
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

/// Options of metrics that score each class.
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

/// Of the samples outside a class, the share that is not predicted as it (specificity).
class LEVIN_API Specificity final : public detail::ClassScore {
 public:
  explicit Specificity(const ClassScoreOptions& options) : ClassScore("Specificity", Kind::kSpecificity, options) {}
};

/// Of the samples predicted as a class, the share that belongs to it (precision).
class LEVIN_API Precision final : public detail::ClassScore {
 public:
  explicit Precision(const ClassScoreOptions& options) : ClassScore("Precision", Kind::kPrecision, options) {}
};

/// Of the samples of a class, the share that is predicted as it (recall).
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

/// The samples of a class that are predicted as it, as a share of those that are either (intersection over union).
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
/// one class occurs among labels or predictions, as in scikit-learn and most libraries. (torchmetrics gives a number that
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

/// How much more labels and predictions agree than by chance. Binary or multiclass. NaN where chance is undefined.
class LEVIN_API CohenKappa final : public detail::ClassCounter {
 public:
  using Options = CohenKappaOptions;

  explicit CohenKappa(const CohenKappaOptions& options);
  MetricValue compute() const override;

 private:
  KappaWeights weights_;
};

}  // namespace levin
