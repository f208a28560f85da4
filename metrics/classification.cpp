#include "levin/metrics/classification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/options/registry.h"
#include "levin/metrics/class_input.h"

namespace levin {

LEVIN_REGISTER_METRIC(Accuracy, "The share of right predictions");
LEVIN_REGISTER_METRIC(HammingDistance, "The share of wrong predictions");
LEVIN_REGISTER_METRIC(Specificity, "Of what is not of a class, the share that is not predicted as such");
LEVIN_REGISTER_METRIC(Precision, "Of what is predicted as a class, the share that is of it");
LEVIN_REGISTER_METRIC(Recall, "Of what is of a class, the share that is predicted as such");
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

template <class T>
void predict_classes(const ClassTask& task, const ClassShape& shape, const T* scores, const std::int64_t* labels,
                     std::int64_t* predicted) {
  bool nan = false;
  for (std::int64_t place = 0; place < shape.samples * shape.inner; ++place) {
    const T* first = shape.inner == 1 ? scores + place * task.count
                                      : scores + place / shape.inner * task.count * shape.inner + place % shape.inner;
    T most = first[0];
    std::int64_t best = 0;
    nan |= std::isnan(most);
    for (std::int64_t c = 1; c < task.count; ++c) {
      const T score = first[c * shape.inner];
      nan |= std::isnan(score);
      best = score > most ? c : best;
      most = score > most ? score : most;
    }
    const std::int64_t label = labels[place];
    if (task.top_k > 1 && label != best && label >= 0 && label < task.count) {
      const T of_label = first[label * shape.inner];
      std::int64_t better = 0;
      for (std::int64_t c = 0; c < task.count; ++c) {
        const T score = first[c * shape.inner];
        better += static_cast<std::int64_t>(score > of_label || (score == of_label && c < label));
      }
      if (better < task.top_k) best = label;
    }
    predicted[place] = best;
  }
  if (nan) throw_nan_score(task);
}

/// The score above which is a yes.
double cut(const ClassTask& task, bool logits) {
  return logits ? std::log(task.threshold / (1 - task.threshold)) : task.threshold;
}

template <class T>
void predict_labels(const ClassTask& task, const T* scores, std::int64_t count, std::int64_t* predicted) {
  const T above = static_cast<T>(cut(task, are_logits(task, scores, count)));
  for (std::int64_t index = 0; index < count; ++index) predicted[index] = static_cast<std::int64_t>(scores[index] > above);
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
  const ClassShape shape = class_shape(task_, predictions, targets);
  if (!on_cpu(task_.metric, predictions, targets)) return update_on_device(predictions, targets);
  const std::int64_t count = targets.numel();
  const Plain<std::int64_t> plain = plain_labels(task_.metric, targets);
  const std::int64_t* labels = plain.data();
  check_labels(task_, labels, count, "targets");
  predicted_.resize(static_cast<std::size_t>(count));
  if (!shape.scores) {
    const Plain<std::int64_t> given(predictions);
    ClassTask all_count = task_;
    all_count.ignore_index.reset();
    check_labels(all_count, given.data(), count, "predictions");
    std::copy(given.data(), given.data() + count, predicted_.begin());
  } else {
    with_scores(predictions, [&](const auto* scores) {
      if (task_.task == Task::kMulticlass) {
        predict_classes(task_, shape, scores, labels, predicted_.data());
      } else {
        predict_labels(task_, scores, count, predicted_.data());
      }
    });
  }
  const std::int64_t classes = task_.count;
  const bool multiclass = task_.task == Task::kMulticlass;
  counts_.in_place([&](std::span<double> counts) {
    double* const table = counts.data();
    for (std::int64_t index = 0; index < count; ++index) {
      const std::int64_t label = labels[index];
      const std::int64_t predicted = predicted_[static_cast<std::size_t>(index)];
      if (label == task_.ignore_index) continue;
      if (!multiclass) {
        ++table[4 * (index / shape.inner % classes) + 2 * label + predicted];
      } else if (pairs_) {
        ++table[label * classes + predicted];
      } else if (label == predicted) {
        ++table[label];
      } else {
        ++table[classes + predicted];
        ++table[2 * classes + label];
      }
    }
  });
}

void ClassCounter::update_on_device(const at::Tensor& predictions, const at::Tensor& targets) {
  const bool multiclass = task_.task == Task::kMulticlass;
  const bool scores = predictions.is_floating_point();
  const at::Tensor given = predictions.detach();
  auto [labels, wrong, ignored] = device_labels(task_, targets);
  const std::int64_t end = multiclass ? task_.count : 2;
  at::Tensor predicted;
  if (!scores) {
    predicted = given.to(at::kLong);
    wrong = wrong.bitwise_or(predicted.lt(0)).bitwise_or(predicted.ge(end));
    predicted = predicted.clamp(0, end - 1);
  } else if (multiclass) {
    wrong = wrong.bitwise_or(given.isnan().any(1));
    predicted = given.argmax(1);
    if (task_.top_k > 1) {
      const at::Tensor label = labels.clamp(0, end - 1).unsqueeze(1);
      const at::Tensor of_label = given.take_along_dim(label, 1);
      const at::Tensor before = class_index(task_, given).lt(label);
      const at::Tensor better = given.gt(of_label).bitwise_or(given.eq(of_label).bitwise_and(before)).sum(1);
      predicted = at::where(better.lt(task_.top_k), label.squeeze(1), predicted);
    }
  } else {
    wrong = wrong.bitwise_or(given.isnan());
    const at::Tensor as_logits = given.gt(cut(task_, true));
    const at::Tensor as_they_are = given.gt(cut(task_, false));
    predicted = task_.scores == Scores::kLogits ? as_logits
                : task_.scores == Scores::kProbabilities
                    ? as_they_are
                    : at::where(given.lt(0).bitwise_or(given.gt(1)).any(), as_logits, as_they_are);
    predicted = predicted.to(at::kLong);
  }
  // Two places of the table more: for labels that there are not, and for those that are left out.
  const std::int64_t size = table_size(task_, pairs_);
  const auto placed = [&, wrong = wrong, ignored = ignored](const at::Tensor& place, std::int64_t of_wrong) {
    return at::where(ignored, size + 1, at::where(wrong, of_wrong, place)).reshape({-1});
  };
  std::vector<at::Tensor> places;
  if (!multiclass) {
    const at::Tensor place = labels.mul(2).add(predicted);
    places = {placed(task_.count == 1 ? place : class_index(task_, labels).mul(4).add(place), size)};
  } else if (pairs_) {
    places = {placed(labels.mul(task_.count).add(predicted), size)};
  } else {
    const at::Tensor hit = labels.eq(predicted);
    places = {placed(at::where(hit, labels, labels.add(2 * task_.count)), size),
              placed(at::where(hit, size + 1, predicted.add(task_.count)), size + 1)};
  }
  const at::Tensor counts = count_places(at::cat(places), size + 2);
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

ClassScore::ClassScore(const char* metric, const ClassScoreOptions& options)
    : ClassScore(class_task(metric, checked(metric, options)), options.average, options.zero_division) {}

ClassScore::ClassScore(ClassTask task, Average average, double zero_division)
    : ClassCounter(std::move(task)), average_(average), zero_division_(zero_division) {}

MetricValue ClassScore::compute() const {
  const std::vector<ClassCounts> counts = class_counts();
  if (task().task == Task::kBinary) return score(counts.front());
  ClassCounts all;
  std::vector<double> scores;
  double total = 0, weights = 0;
  for (const ClassCounts& each : counts) {
    all = {.tp = all.tp + each.tp, .fp = all.fp + each.fp, .tn = all.tn + each.tn, .fn = all.fn + each.fn};
    scores.push_back(score(each));
    const double labels = each.tp + each.fn;
    const bool counted = !multiclass() || (of_labels_only() && task().top_k > 1 ? labels : labels + each.fp) > 0;
    const double weight = average_ == Average::kWeighted ? labels : static_cast<double>(counted);
    total += weight * scores.back();
    weights += weight;
  }
  if (average_ == Average::kNone) return scores;
  return average_ == Average::kMicro ? score(all) : weights == 0 ? 0 : total / weights;
}

}  // namespace detail

using detail::ClassCounts;

namespace {

double divided(double part, double whole, double zero_division) { return whole == 0 ? zero_division : part / whole; }

}  // namespace

void ClassScoreOptions::declare(OptionList<ClassScoreOptions>& options) { detail::declare_task(options); }
void JaccardIndexOptions::declare(OptionList<JaccardIndexOptions>& options) { detail::declare_task(options); }
void MatthewsCorrCoefOptions::declare(OptionList<MatthewsCorrCoefOptions>& options) { detail::declare_task(options); }

void FBetaScoreOptions::declare(OptionList<FBetaScoreOptions>& options) {
  detail::declare_task(options);
  options.add("beta", &FBetaScoreOptions::beta, "Recall counts so many times as much as precision").above(0);
}

void ConfusionMatrixOptions::declare(OptionList<ConfusionMatrixOptions>& options) {
  detail::declare_task(options);
  options.add("normalize", &ConfusionMatrixOptions::normalize, "By what counts are divided: by labels, by predictions, by all");
}

void CohenKappaOptions::declare(OptionList<CohenKappaOptions>& options) {
  detail::declare_task(options);
  options.add("weights", &CohenKappaOptions::weights,
              "How a wrong class counts: alike, by its distance, by the square of that");
}

double Accuracy::score(const ClassCounts& counts) const {
  if (multiclass()) return divided(counts.tp, counts.tp + counts.fn);
  return divided(counts.tp + counts.tn, counts.tp + counts.tn + counts.fp + counts.fn);
}

double HammingDistance::score(const ClassCounts& counts) const {
  if (multiclass()) return 1 - divided(counts.tp, counts.tp + counts.fn);
  return 1 - divided(counts.tp + counts.tn, counts.tp + counts.tn + counts.fp + counts.fn);
}

double Specificity::score(const ClassCounts& counts) const { return divided(counts.tn, counts.tn + counts.fp); }
double Precision::score(const ClassCounts& counts) const { return divided(counts.tp, counts.tp + counts.fp); }
double Recall::score(const ClassCounts& counts) const { return divided(counts.tp, counts.tp + counts.fn); }

double F1Score::score(const ClassCounts& counts) const { return divided(2 * counts.tp, 2 * counts.tp + counts.fn + counts.fp); }

FBetaScore::FBetaScore(FBetaScoreOptions options)
    : ClassScore(detail::class_task("FBetaScore", checked("FBetaScore", options)), options.average, options.zero_division),
      beta_squared_(options.beta * options.beta) {}

double FBetaScore::score(const ClassCounts& counts) const {
  const double hits = (1 + beta_squared_) * counts.tp;
  return divided(hits, hits + beta_squared_ * counts.fn + counts.fp);
}

JaccardIndex::JaccardIndex(JaccardIndexOptions options)
    : ClassCounter(detail::class_task("JaccardIndex", checked("JaccardIndex", options))),
      average_(options.average),
      zero_division_(options.zero_division) {}

MetricValue JaccardIndex::compute() const {
  const bool multiclass = task().task == Task::kMulticlass;
  std::vector<double> scores;
  ClassCounts all;
  double total = 0, weights = 0;
  for (const ClassCounts& counts : class_counts()) {
    const bool ignored = multiclass && task().ignore_index == static_cast<std::int64_t>(scores.size());
    const double both = counts.tp + counts.fp + counts.fn;
    scores.push_back(divided(counts.tp, both, zero_division_));
    all.tp += counts.tp;
    all.fp += ignored ? 0 : counts.fp + counts.fn;
    const double macro_weight = ignored || (multiclass && both == 0) ? 0 : 1;
    const double weight = average_ == Average::kWeighted ? counts.tp + counts.fn : macro_weight;
    total += weight * scores.back();
    weights += weight;
  }
  if (task().task == Task::kBinary) return scores.front();
  if (average_ == Average::kNone) return scores;
  return average_ == Average::kMicro ? divided(all.tp, all.tp + all.fp, zero_division_) : total / weights;
}

MatthewsCorrCoef::MatthewsCorrCoef(MatthewsCorrCoefOptions options)
    : ClassCounter(detail::class_task("MatthewsCorrCoef", checked("MatthewsCorrCoef", options))) {}

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

ConfusionMatrix::ConfusionMatrix(ConfusionMatrixOptions options)
    : ClassCounter(detail::class_task("ConfusionMatrix", checked("ConfusionMatrix", options)), true),
      normalize_(options.normalize) {}

MetricValue ConfusionMatrix::compute() const {
  const std::int64_t size = task().task == Task::kMulticlass ? task().count : 2;
  const std::span<const double> counts = table();
  std::vector<double> values(counts.begin(), counts.end());
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(size * size)) {
    const at::Tensor matrix = at::from_blob(values.data() + begin, {size, size}, at::kDouble);
    if (normalize_ == Normalize::kTrue) matrix.div_(matrix.sum(1, true).clamp_min(1));
    if (normalize_ == Normalize::kPred) matrix.div_(matrix.sum(0, true).clamp_min(1));
    if (normalize_ == Normalize::kAll) matrix.div_(matrix.sum().clamp_min(1));
  }
  if (task().task == Task::kMultilabel) return {values, {task().count, 2, 2}};
  return {values, {size, size}};
}

CohenKappa::CohenKappa(CohenKappaOptions options)
    : ClassCounter(detail::class_task("CohenKappa", checked("CohenKappa", options)), true), weights_(options.weights) {}

MetricValue CohenKappa::compute() const {
  const std::span<const double> counts = table();
  const std::size_t size = task().task == Task::kMulticlass ? static_cast<std::size_t>(task().count) : 2;
  std::vector<double> labels(size), predicted(size);
  double seen = 0;
  for (std::size_t index = 0; index < counts.size(); ++index) {
    labels[index / size] += counts[index];
    predicted[index % size] += counts[index];
    seen += counts[index];
  }
  double cost = 0, by_chance = 0;
  for (std::size_t index = 0; index < counts.size(); ++index) {
    const std::size_t label = index / size, prediction = index % size;
    const auto distance = static_cast<double>(std::max(label, prediction) - std::min(label, prediction));
    const double weight = weights_ == KappaWeights::kQuadratic ? distance * distance
                          : weights_ == KappaWeights::kLinear  ? distance
                                                               : static_cast<double>(label != prediction);
    cost += weight * counts[index];
    by_chance += weight * labels[label] * predicted[prediction] / seen;
  }
  return 1 - cost / by_chance;
}

}  // namespace levin
