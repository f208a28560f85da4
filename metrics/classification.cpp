#include "levin/metrics/classification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/metrics/class_input.h"

namespace levin {

LEVIN_REGISTER_METRIC(Accuracy, "The share of right predictions");
LEVIN_REGISTER_METRIC(HammingDistance, "The share of wrong predictions");
LEVIN_REGISTER_METRIC(Specificity, "Of the samples outside a class, the share not predicted as it");
LEVIN_REGISTER_METRIC(Precision, "Of the samples predicted as a class, the share that belong to it");
LEVIN_REGISTER_METRIC(Recall, "Of the samples of a class, the share predicted as it");
LEVIN_REGISTER_METRIC(FBetaScore, "The weighted harmonic mean of precision and recall");
LEVIN_REGISTER_METRIC(F1Score, "The harmonic mean of precision and recall");
LEVIN_REGISTER_METRIC(JaccardIndex, "Intersection over union");
LEVIN_REGISTER_METRIC(MatthewsCorrCoef, "The correlation of labels and predictions");
LEVIN_REGISTER_METRIC(ConfusionMatrix, "How often each label was predicted as which");
LEVIN_REGISTER_METRIC(CohenKappa, "How much more labels and predictions agree than by chance");

namespace detail {

namespace {

/// Numbers of the table: hits, then wrong predictions, then missed labels of each class; or each pair; or, for each label, the
/// pairs of 0 and 1.
std::int64_t table_size(const ClassTask& task, bool pairs) {
  if (task.task != Task::kMulticlass) return 4 * task.count;
  return task.count * (pairs ? task.count : 3);
}

/// What is predicted, in the shape of the labels: of equal scores the first class.
at::Tensor predicted_labels(const ClassTask& task, const at::Tensor& given, const at::Tensor& labels) {
  if (!given.is_floating_point()) return given.to(at::kLong);
  if (task.task != Task::kMulticlass) {
    const auto above = [&](bool logits) {
      return given.gt(logits ? std::log(task.threshold / (1 - task.threshold)) : task.threshold);
    };
    if (task.scores != Scores::kAuto) return above(task.scores == Scores::kLogits).to(at::kLong);
    return at::where(given.lt(0).bitwise_or(given.gt(1)).any(), above(true), above(false)).to(at::kLong);
  }
  const at::Tensor best = given.argmax(1);
  if (task.top_k == 1) return best;
  const at::Tensor label = labels.clamp(0, task.count - 1).unsqueeze(1);
  const at::Tensor of_label = given.take_along_dim(label, 1);
  const at::Tensor before = class_index(task, given).lt(label);
  const at::Tensor better = given.gt(of_label).bitwise_or(given.eq(of_label).bitwise_and(before)).sum(1);
  return at::where(better.lt(task.top_k), label.squeeze(1), best);
}

}  // namespace

std::string ClassTask::str() const {
  return format("{} of {}, threshold {}, top {}, ignoring {}, scores {}", choice_name(task), count, threshold, top_k,
                ignore_index ? std::to_string(*ignore_index) : "none", choice_name(scores));
}

ClassCounter::ClassCounter(ClassTask task, bool pairs)
    : task_(std::move(task)), pairs_(pairs), counts_(add_numbers("counts", {table_size(task_, pairs_)})) {}

std::string ClassCounter::state_kind() const {
  const bool by_class = task_.task == Task::kMulticlass && !pairs_;
  return (by_class ? "hits and mistakes of classes: " : "pairs of label and prediction: ") + task_.str();
}

void ClassCounter::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_class_shape(task_, predictions, targets);
  check_same_device(task_.metric, predictions, targets);
  const at::Tensor given = predictions.detach();
  if (!given.is_cpu()) return update_on_device(given, targets);
  const at::Tensor labels = plain_labels(task_.metric, targets);
  check_labels(task_, labels, "targets");
  const bool takes_best = given.is_floating_point() && task_.task == Task::kMulticlass && task_.top_k == 1;
  const at::Tensor predicted = takes_best ? best_classes(task_, given, labels) : predicted_labels(task_, given, labels);
  if (given.is_floating_point()) {
    if (!takes_best) check_numbers(task_, given, labels);
  } else {
    ClassTask all_count = task_;
    all_count.ignore_index.reset();
    const at::Tensor counting = task_.ignore_index ? predicted.masked_fill(labels.eq(*task_.ignore_index), 0) : predicted;
    check_labels(all_count, plain(counting, at::kLong), "predictions");
  }
  const at::Tensor each_label = plain(class_last(task_, labels), at::kLong);
  const at::Tensor each_predicted = plain(class_last(task_, predicted), at::kLong);
  const std::int64_t* const label_of = each_label.const_data_ptr<std::int64_t>();
  const std::int64_t* const prediction_of = each_predicted.const_data_ptr<std::int64_t>();
  std::vector<double> table(static_cast<std::size_t>(table_size(task_, pairs_)));
  const auto count_one = [&](std::int64_t cell) { ++table[static_cast<std::size_t>(cell)]; };
  for (std::int64_t index = 0; index < each_label.numel(); ++index) {
    const std::int64_t label = label_of[index], prediction = prediction_of[index];
    if (label == task_.ignore_index) continue;
    if (task_.task != Task::kMulticlass) {
      count_one(4 * (index % task_.count) + 2 * label + prediction);
    } else if (pairs_) {
      count_one(label * task_.count + prediction);
    } else if (label == prediction) {
      count_one(label);
    } else {
      count_one(task_.count + prediction);
      count_one(2 * task_.count + label);
    }
  }
  counts_.take(table);
}

void ClassCounter::update_on_device(const at::Tensor& given, const at::Tensor& targets) {
  const bool multiclass = task_.task == Task::kMulticlass;
  auto [labels, wrong, ignored] = label_tensors(task_, targets);
  at::Tensor predicted = predicted_labels(task_, given, labels);
  if (given.is_floating_point()) {
    at::Tensor none = given.isnan();
    if (task_.scores == Scores::kProbabilities) none = none.bitwise_or(given.lt(0)).bitwise_or(given.gt(1));
    wrong = wrong.bitwise_or(multiclass ? none.any(1) : none);
  } else {
    const std::int64_t end = multiclass ? task_.count : 2;
    wrong = wrong.bitwise_or(predicted.lt(0)).bitwise_or(predicted.ge(end));
    predicted = predicted.clamp(0, end - 1);
  }
  // Two cells of the table more: for labels that are out of range, and for ignored ones.
  const std::int64_t size = table_size(task_, pairs_);
  const auto cell_of = [&, wrong = wrong, ignored = ignored](const at::Tensor& cell, std::int64_t of_wrong) {
    return at::where(ignored, size + 1, at::where(wrong, of_wrong, cell)).reshape({-1});
  };
  std::vector<at::Tensor> cells;
  if (!multiclass) {
    const at::Tensor cell = labels.mul(2).add(predicted);
    cells = {cell_of(task_.count == 1 ? cell : class_index(task_, labels).mul(4).add(cell), size)};
  } else if (pairs_) {
    cells = {cell_of(labels.mul(task_.count).add(predicted), size)};
  } else {
    const at::Tensor hit = labels.eq(predicted);
    cells = {cell_of(at::where(hit, labels, labels.add(2 * task_.count)), size),
             cell_of(at::where(hit, size + 1, predicted.add(task_.count)), size + 1)};
  }
  const at::Tensor counts = count_cells(at::cat(cells), size + 2);
  counts_.take(counts.narrow(0, 0, size));
  wrong_.take(counts[size]);
}

std::span<const double> ClassCounter::table() const {
  if (wrong_.value() > 0) throw_wrong_on_device(task_, wrong_.value());
  return counts_.values();
}

std::vector<ClassCounts> ClassCounter::class_counts() const {
  const std::span<const double> numbers = table();
  const auto classes = static_cast<std::size_t>(task_.count);
  std::vector<ClassCounts> counts(classes);
  double seen = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    if (task_.task != Task::kMulticlass) {
      const double* each = numbers.data() + 4 * c;
      counts[c] = {.tp = each[3], .fp = each[1], .tn = each[0], .fn = each[2]};
    } else {
      counts[c] = {.tp = numbers[c], .fp = numbers[classes + c], .fn = numbers[2 * classes + c]};
      seen += counts[c].tp + counts[c].fn;
    }
  }
  if (task_.task == Task::kMulticlass) {
    for (ClassCounts& each : counts) each.tn = seen - each.tp - each.fp - each.fn;
  }
  return counts;
}

ClassScore::ClassScore(const char* metric, Kind kind, const ClassScoreOptions& options)
    : ClassScore(class_task(metric, options), kind, options.average, options.zero_division) {}

ClassScore::ClassScore(ClassTask task, Kind kind, Average average, double zero_division, double beta)
    : ClassCounter(std::move(task)),
      kind_(kind),
      average_(average),
      zero_division_(zero_division),
      beta_squared_(beta * beta) {}

double ClassScore::score(const ClassCounts& counts) const {
  const auto [tp, fp, tn, fn] = counts;
  const auto divided = [&](double part, double whole) { return whole == 0 ? zero_division_ : part / whole; };
  const bool multiclass = task().task == Task::kMulticlass;
  const double accuracy = multiclass ? divided(tp, tp + fn) : divided(tp + tn, tp + tn + fp + fn);
  const double hits = (1 + beta_squared_) * tp;
  switch (kind_) {
    case Kind::kAccuracy:
      return accuracy;
    case Kind::kHammingDistance:
      return 1 - accuracy;
    case Kind::kSpecificity:
      return divided(tn, tn + fp);
    case Kind::kPrecision:
      return divided(tp, tp + fp);
    case Kind::kRecall:
      return divided(tp, tp + fn);
    case Kind::kFBeta:
      return divided(hits, hits + beta_squared_ * fn + fp);
    case Kind::kJaccard:
      return divided(tp, tp + fp + fn);
  }
  return kNaN;
}

MetricValue ClassScore::compute() const {
  const std::vector<ClassCounts> counts = class_counts();
  if (task().task == Task::kBinary) return score(counts.front());
  const bool multiclass = task().task == Task::kMulticlass;
  // With top_k, a mean of these leaves out classes that no label has, predicted or not.
  const bool of_labels = task().top_k > 1 && (kind_ == Kind::kAccuracy || kind_ == Kind::kPrecision || kind_ == Kind::kRecall);
  ClassCounts all;
  std::vector<double> scores;
  double total = 0, weights = 0;
  for (const ClassCounts& each : counts) {
    const bool ignored =
        kind_ == Kind::kJaccard && multiclass && task().ignore_index == static_cast<std::int64_t>(scores.size());
    if (!ignored) all = {.tp = all.tp + each.tp, .fp = all.fp + each.fp, .tn = all.tn + each.tn, .fn = all.fn + each.fn};
    scores.push_back(score(each));
    const double labels = each.tp + each.fn;
    const bool counted = !ignored && (!multiclass || (of_labels ? labels : labels + each.fp) > 0);
    const double weight = average_ == Average::kWeighted ? labels : static_cast<double>(counted);
    total += weight * scores.back();
    weights += weight;
  }
  if (average_ == Average::kNone) return scores;
  if (average_ == Average::kMicro) return score(all);
  return weights == 0 && kind_ != Kind::kJaccard ? 0 : total / weights;
}

}  // namespace detail

using detail::ClassCounts;

void ClassScoreOptions::declare(OptionList<ClassScoreOptions>& options) { detail::declare_task(options); }
void JaccardIndexOptions::declare(OptionList<JaccardIndexOptions>& options) { detail::declare_task(options); }
void MatthewsCorrCoefOptions::declare(OptionList<MatthewsCorrCoefOptions>& options) { detail::declare_task(options); }

void FBetaScoreOptions::declare(OptionList<FBetaScoreOptions>& options) {
  detail::declare_task(options);
  options.add("beta", &FBetaScoreOptions::beta, "Recall counts so many times as much as precision").above(0);
}

void ConfusionMatrixOptions::declare(OptionList<ConfusionMatrixOptions>& options) {
  detail::declare_task(options);
  options.add("normalize", &ConfusionMatrixOptions::normalize, "What counts are divided by: labels, predictions or all");
}

void CohenKappaOptions::declare(OptionList<CohenKappaOptions>& options) {
  detail::declare_task(options);
  options.add("weights", &CohenKappaOptions::weights,
              "How a wrong class counts: alike, by its distance, by the square of that");
}

FBetaScore::FBetaScore(const FBetaScoreOptions& options)
    : ClassScore(detail::class_task("FBetaScore", options), Kind::kFBeta, options.average, options.zero_division,
                 options.beta) {}

JaccardIndex::JaccardIndex(const JaccardIndexOptions& options)
    : ClassScore(detail::class_task("JaccardIndex", options), Kind::kJaccard, options.average, options.zero_division) {}

MatthewsCorrCoef::MatthewsCorrCoef(const MatthewsCorrCoefOptions& options)
    : ClassCounter(detail::class_task("MatthewsCorrCoef", options)) {}

MetricValue MatthewsCorrCoef::compute() const {
  std::vector<ClassCounts> counts = class_counts();
  if (task().task != Task::kMulticlass) {  // all labels as one, and its two classes
    ClassCounts all;
    for (const ClassCounts& each : counts) all = {all.tp + each.tp, all.fp + each.fp, all.tn + each.tn, all.fn + each.fn};
    counts = {all, {all.tn, all.fn, all.tp, all.fp}};
  }
  double right = 0, seen = 0, of_both = 0, of_predicted = 0, of_labels = 0;
  for (const ClassCounts& each : counts) {
    const double predicted = each.tp + each.fp;
    const double labels = each.tp + each.fn;
    right += each.tp;
    seen += labels;
    of_both += labels * predicted;
    of_predicted += predicted * predicted;
    of_labels += labels * labels;
  }
  if (counts.size() == 2 && seen > 0 && (right == seen || right == 0)) return right == seen ? 1 : -1;
  const double spread = (seen * seen - of_predicted) * (seen * seen - of_labels);
  return spread == 0 ? 0 : (right * seen - of_both) / std::sqrt(spread);
}

ConfusionMatrix::ConfusionMatrix(const ConfusionMatrixOptions& options)
    : ClassCounter(detail::class_task("ConfusionMatrix", options), true), normalize_(options.normalize) {}

MetricValue ConfusionMatrix::compute() const {
  const std::int64_t size = task().task == Task::kMulticlass ? task().count : 2;
  at::Tensor matrices = detail::tensor_of(table()).reshape({-1, size, size});
  if (normalize_ == Normalize::kTrue) matrices = matrices.div(matrices.sum(2, true).clamp_min(1));
  if (normalize_ == Normalize::kPred) matrices = matrices.div(matrices.sum(1, true).clamp_min(1));
  if (normalize_ == Normalize::kAll) matrices = matrices.div(matrices.sum({1, 2}, true).clamp_min(1));
  return task().task == Task::kMultilabel ? matrices : matrices[0];
}

CohenKappa::CohenKappa(const CohenKappaOptions& options)
    : ClassCounter(detail::class_task("CohenKappa", options), true), weights_(options.weights) {}

MetricValue CohenKappa::compute() const {
  const std::int64_t size = task().task == Task::kMulticlass ? task().count : 2;
  const at::Tensor counts = detail::tensor_of(table()).reshape({size, size});
  const at::Tensor classes = at::arange(size, at::kDouble);
  const at::Tensor distance = classes.unsqueeze(1).sub(classes).abs();
  const at::Tensor weights = weights_ == KappaWeights::kQuadratic ? distance.square()
                             : weights_ == KappaWeights::kLinear  ? distance
                                                                  : distance.clamp_max(1);
  const at::Tensor by_chance = at::outer(counts.sum(1), counts.sum(0)).div(counts.sum());
  return 1 - weights.mul(counts).sum().div(weights.mul(by_chance).sum()).item<double>();
}

}  // namespace levin
