#include "levin/metrics/curves.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/metrics/class_input.h"

namespace levin {

LEVIN_REGISTER_METRIC(AUROC, "The area under the curve of true over false positive rates");
LEVIN_REGISTER_METRIC(AveragePrecision, "The mean of precision over recall");
LEVIN_REGISTER_METRIC(CalibrationError, "How far confidence is from accuracy");

namespace {

std::vector<double> evenly(std::int64_t count) {
  std::vector<double> thresholds;
  for (std::int64_t index = 0; index < count; ++index) {
    thresholds.push_back(count == 1 ? 0 : static_cast<double>(index) / static_cast<double>(count - 1));
  }
  return thresholds;
}

template <class O>
void declare_curve(OptionList<O>& options) {
  detail::declare_task(options);
  options.add("thresholds", &O::thresholds, "Thresholds of the curve, or how many; null: every score, exactly");
  options.rule({"average"}, [](const O& given) {
    return given.average == Average::kMicro && detail::task_of(given) == Task::kMulticlass
               ? "average 'micro' is for task 'multilabel'; take 'macro', 'weighted' or 'none'"
               : "";
  });
}

/// How many thresholds are at or below a probability. One that was given as a float is compared as such.
at::Tensor thresholds_below(const at::Tensor& probabilities, const std::vector<double>& thresholds, at::ScalarType given) {
  const at::ScalarType type = given == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor bounds = at::tensor(thresholds, type).to(probabilities.device(), /*non_blocking=*/true);
  return at::bucketize(probabilities.to(type), bounds, false, /*right=*/true);
}

}  // namespace

Thresholds::Thresholds(std::int64_t count) : list(evenly(count)) {
  if (count < 2) throw ConfigError(format("thresholds: at least 2, got {}", count));
}

Thresholds OptionType<Thresholds>::read(const Value& value) {
  if (value.is_null()) return {};
  if (!value.is_list() && OptionType<std::int64_t>::read(value) < 2) {
    throw ConfigError(value.mark(), format("at least 2 thresholds, got {}; null takes every score", value.as_int()));
  }
  Thresholds thresholds =
      value.is_list() ? Thresholds(OptionType<std::vector<double>>::read(value)) : Thresholds(value.as_int());
  for (const double threshold : thresholds.list) {
    if (!(threshold >= 0 && threshold <= 1))
      throw ConfigError(value.mark(), format("thresholds are from 0 to 1, got {}", threshold));
  }
  return thresholds;
}

Value OptionType<Thresholds>::write(const Thresholds& thresholds) {
  if (thresholds.list.empty()) return {};
  const auto count = static_cast<std::int64_t>(thresholds.list.size());
  if (count > 1 && thresholds.list == evenly(count)) return count;
  return OptionType<std::vector<double>>::write(thresholds.list);
}

Value OptionType<Thresholds>::schema() {
  return detail::any_of(
      {detail::schema_of_type("integer"), OptionType<std::vector<double>>::schema(), detail::schema_of_type("null")});
}

namespace detail {

CurveMetric::CurveMetric(ClassTask task, Average average, const Thresholds& thresholds)
    : task_(std::move(task)), average_(average), thresholds_(thresholds.list) {
  std::sort(thresholds_.begin(), thresholds_.end());
  if (!exact()) {
    between_ = add_numbers("between", {task_.count, 2, static_cast<std::int64_t>(thresholds_.size()) + 1});
    return;
  }
  const bool multilabel = task_.task == Task::kMultilabel;
  scores_ =
      add_samples("scores", at::kDouble, task_.task == Task::kBinary ? std::vector<std::int64_t>() : std::vector{task_.count});
  labels_ = add_samples("labels", at::kInt, multilabel ? std::vector{task_.count} : std::vector<std::int64_t>());
}

std::string CurveMetric::state_kind() const {
  return "a curve: " + task_.str() + ", at " + join(thresholds_, ", ", float_text);
}

void CurveMetric::update(const at::Tensor& predictions, const at::Tensor& targets) {
  check_scores(task_, predictions, targets);
  const bool multilabel = task_.task == Task::kMultilabel;
  const at::Tensor scores = class_last(task_, probabilities_of(task_, predictions)).reshape({-1, task_.count}).contiguous();
  LabelTensors given = label_tensors(task_, targets);
  for (at::Tensor* each : {&given.labels, &given.wrong, &given.ignored}) {
    *each = class_last(task_, *each).reshape({-1, multilabel ? task_.count : 1});
  }
  const at::Tensor& labels = given.labels;
  const at::Tensor nan = multiclass() ? scores.isnan().any(1, true) : scores.isnan();
  const at::Tensor wrong = given.wrong.bitwise_or(nan).bitwise_and(given.ignored.bitwise_not());
  if (exact()) {
    const at::Tensor marked = at::where(given.ignored, -1, at::where(wrong, -2, labels));
    scores_->append(task_.task == Task::kBinary ? scores.reshape({-1}) : scores);
    labels_->append(multilabel ? marked : marked.reshape({-1}));
    return;
  }
  const at::Tensor bins = thresholds_below(scores, thresholds_, predictions.scalar_type());
  const std::int64_t size = static_cast<std::int64_t>(thresholds_.size()) + 1;
  const std::int64_t all = 2 * task_.count * size;
  const at::Tensor classes = class_index(task_, scores);
  const at::Tensor own = multiclass() ? labels.eq(classes) : labels.eq(1);
  const at::Tensor cell = classes.mul(2).add(own.to(at::kLong)).mul(size).add(bins);
  const at::Tensor left_out = given.ignored.bitwise_or(wrong);
  between_->take(count_cells(at::where(left_out, all, cell).reshape({-1}), all + 1).narrow(0, 0, all));
  wrong_.take(wrong.sum());
}

std::vector<Curve> CurveMetric::curves(bool together) const {
  const auto classes = static_cast<std::size_t>(task_.count);
  std::vector<Curve> curves(together ? 1 : classes);
  if (!exact()) {
    if (wrong_.value() > 0) throw_wrong_on_device(task_, wrong_.value());
    const std::span<const double> table = between_->values();
    const std::size_t size = thresholds_.size() + 1;
    for (std::size_t each = 0; each < curves.size(); ++each) {
      const std::size_t begin = each, end = together ? classes : each + 1;
      Curve::Point point{0, 0};
      for (std::size_t bin = size; bin-- > 0;) {
        for (std::size_t c = begin; c < end; ++c) {
          point.fp += table[2 * c * size + bin];
          point.tp += table[(2 * c + 1) * size + bin];
        }
        if (bin > 0) curves[each].points.push_back(point);
      }
      curves[each].negatives = point.fp;
      curves[each].positives = point.tp;
    }
    return curves;
  }
  const at::Tensor scores = scores_->tensor(), labels = labels_->tensor();
  const double* score = scores.const_data_ptr<double>();
  const int* label = labels.const_data_ptr<int>();
  if (const auto wrong = std::count(label, label + labels.numel(), -2))
    throw_wrong_on_device(task_, static_cast<double>(wrong));
  std::vector<std::pair<double, bool>> samples;
  for (std::size_t each = 0; each < curves.size(); ++each) {
    samples.clear();
    const auto count = static_cast<std::size_t>(scores.numel());
    for (std::size_t index = each; index < count; index += together ? 1 : classes) {
      const int own = label[multiclass() ? index / classes : index];
      if (own >= 0) samples.emplace_back(score[index], own == (multiclass() ? static_cast<int>(each) : 1));
    }
    std::sort(samples.begin(), samples.end(), [](const auto& left, const auto& right) { return left.first > right.first; });
    Curve& curve = curves[each];
    for (std::size_t index = 0; index < samples.size(); ++index) {
      ++(samples[index].second ? curve.positives : curve.negatives);
      if (index + 1 == samples.size() || samples[index + 1].first != samples[index].first) {
        curve.points.push_back({curve.negatives, curve.positives});
      }
    }
  }
  return curves;
}

MetricValue CurveMetric::compute() const {
  const bool together = task_.task == Task::kBinary || average_ == Average::kMicro;
  std::vector<double> areas;
  double total = 0, weights = 0;
  for (const Curve& curve : curves(together)) {
    areas.push_back(area(curve));
    if (std::isnan(areas.back())) continue;
    const double weight = average_ == Average::kWeighted ? curve.positives : 1;
    total += weight * areas.back();
    weights += weight;
  }
  if (together) return areas.front();
  if (average_ == Average::kNone) return areas;
  return weights == 0 && average_ == Average::kWeighted ? 0 : total / weights;
}

}  // namespace detail

void AUROCOptions::declare(OptionList<AUROCOptions>& options) {
  declare_curve(options);
  options.add("max_fpr", &AUROCOptions::max_fpr, "binary: the area up to this false positive rate").above(0).max(1);
  options.rule({"max_fpr"}, [](const AUROCOptions& given) {
    return given.max_fpr && detail::task_of(given) != Task::kBinary ? "max_fpr is for task 'binary'; leave it out" : "";
  });
}

void AveragePrecisionOptions::declare(OptionList<AveragePrecisionOptions>& options) { declare_curve(options); }

void CalibrationErrorOptions::declare(OptionList<CalibrationErrorOptions>& options) {
  detail::declare_task(options);
  options.add("n_bins", &CalibrationErrorOptions::n_bins, "Bins of confidence").min(1);
  options.add("norm", &CalibrationErrorOptions::norm, "What the differences of confidence and accuracy become");
}

AUROC::AUROC(const AUROCOptions& options)
    : CurveMetric(detail::class_task("AUROC", options), options.average, options.thresholds), max_fpr_(options.max_fpr) {}

double AUROC::area(const detail::Curve& curve) const {
  if (exact() && curve.points.empty()) return detail::kNaN;
  // Without samples of one kind its rate is 0.
  const double negatives = std::max(curve.negatives, 1.0), positives = std::max(curve.positives, 1.0);
  const bool part = max_fpr_ && *max_fpr_ < 1 && curve.negatives > 0 && curve.positives > 0;
  double area = 0, last_fpr = 0, last_tpr = 0;
  bool first = !exact();  // the exact curve begins at 0
  for (const detail::Curve::Point& point : curve.points) {
    double fpr = point.fp / negatives, tpr = point.tp / positives;
    const bool beyond = part && fpr > *max_fpr_;
    if (beyond && !first) {
      tpr = last_tpr + (tpr - last_tpr) * (*max_fpr_ - last_fpr) / (fpr - last_fpr);
      fpr = *max_fpr_;
    }
    if (!first) area += (fpr - last_fpr) * (tpr + last_tpr) / 2;
    if (beyond) break;
    last_fpr = fpr;
    last_tpr = tpr;
    first = false;
  }
  if (!part) return area;
  const double least = *max_fpr_ * *max_fpr_ / 2;
  return 0.5 * (1 + (area - least) / (*max_fpr_ - least));
}

AveragePrecision::AveragePrecision(const AveragePrecisionOptions& options)
    : CurveMetric(detail::class_task("AveragePrecision", options), options.average, options.thresholds) {}

double AveragePrecision::area(const detail::Curve& curve) const {
  if (exact() && (curve.points.empty() || (multiclass() && curve.positives == 0))) return detail::kNaN;
  double area = 0, last = 0;
  for (const auto& [fp, tp] : curve.points) {
    if (tp > last) area += (tp - last) / curve.positives * tp / (tp + fp);
    last = tp;
  }
  return area;
}

CalibrationError::CalibrationError(const CalibrationErrorOptions& options)
    : task_(detail::class_task("CalibrationError", options)),
      norm_(options.norm),
      size_(options.n_bins + 1),
      bins_(add_numbers("bins", {size_, 3})) {}

std::string CalibrationError::state_kind() const { return format("calibration in {} bins: {}", size_ - 1, task_.str()); }

void CalibrationError::update(const at::Tensor& predictions, const at::Tensor& targets) {
  detail::check_scores(task_, predictions, targets);
  const at::Tensor scores = detail::probabilities_of(task_, predictions).reshape({-1, task_.count});
  const detail::LabelTensors given = detail::label_tensors(task_, targets.reshape({-1}));
  const auto [confidence, predicted] = scores.max(1);
  const at::Tensor right = task_.task == Task::kMulticlass ? predicted.eq(given.labels) : given.labels.eq(1);
  const at::Tensor wrong = given.wrong.bitwise_or(confidence.isnan()).bitwise_and(given.ignored.bitwise_not());
  const at::Tensor left_out = wrong.bitwise_or(given.ignored);
  const at::Tensor below = thresholds_below(confidence, evenly(size_), predictions.scalar_type());
  const at::Tensor bin = at::where(left_out, size_, below.sub(1).clamp(0, size_ - 1));
  const at::Tensor each = at::stack({at::ones_like(confidence), confidence, right.to(at::kDouble)}, 1);
  const at::Tensor bins = at::zeros({size_ + 1, 3}, each.options());
  bins.scatter_add_(0, bin.unsqueeze(1).expand({-1, 3}), at::where(left_out.unsqueeze(1), 0.0, each));
  bins_.take(bins.narrow(0, 0, size_));
  wrong_.take(wrong.sum());
}

MetricValue CalibrationError::compute() const {
  if (wrong_.value() > 0) detail::throw_wrong_on_device(task_, wrong_.value());
  const at::Tensor bins = detail::tensor_of(bins_.values()).reshape({-1, 3});
  const at::Tensor filled = bins.index_select(0, bins.select(1, 0).nonzero().squeeze(1));
  if (filled.size(0) == 0) return detail::kNaN;
  const at::Tensor samples = filled.select(1, 0);
  const at::Tensor differences = filled.select(1, 2).sub(filled.select(1, 1)).abs().div(samples);
  if (norm_ == CalibrationNorm::kMax) return differences.max();
  const at::Tensor shares = samples.div(samples.sum());
  if (norm_ == CalibrationNorm::kL1) return differences.mul(shares).sum();
  return differences.square().mul(shares).sum().sqrt();
}

}  // namespace levin
