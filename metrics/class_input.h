#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "levin/core/options/options.h"
#include "levin/metrics/classification.h"

// How metrics read tensors: those on the CPU with plain loops, since a handful of tensor operations takes ten times as long for
// a small batch. What is on a device is computed there, and not waited for.

namespace levin::detail {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string shape_text(const at::Tensor& tensor);

/// A tensor as a contiguous one of type T on the CPU, without a copy where it is one.
template <class T>
class Plain {
 public:
  explicit Plain(const at::Tensor& tensor) {
    constexpr auto kType = c10::CppTypeToScalarType<T>::value;
    if (tensor.scalar_type() != kType || !tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg()) {
      kept_ = tensor.detach().to(kType).contiguous();
      data_ = kept_.const_data_ptr<T>();
    } else {
      data_ = tensor.const_data_ptr<T>();
    }
  }
  const T* data() const { return data_; }

 private:
  at::Tensor kept_;
  const T* data_;
};

/// Calls `use` with the scores as plain float or double: other types as float.
template <class Use>
void with_scores(const at::Tensor& scores, Use use) {
  if (scores.scalar_type() == at::kDouble) {
    use(Plain<double>(scores).data());
  } else {
    use(Plain<float>(scores).data());
  }
}

/// Labels as plain integers. Throws MisuseError when they are floats that are no integers.
Plain<std::int64_t> plain_labels(const std::string& metric, const at::Tensor& labels);

/// Throws MisuseError unless the two are on one device. True when that is the CPU.
bool on_cpu(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets);
/// Throws MisuseError unless the shapes are equal.
void check_same_shape(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets);

/// How scores and labels of a batch lie in memory: those of sample n, class c and place i at [(n * classes + c) * inner + i].
struct ClassShape {
  bool scores = true;  ///< predictions are scores, else labels
  std::int64_t samples = 0;
  std::int64_t inner = 1;
};
/// Throws MisuseError when the shapes are not those that ClassCounter::update() wants.
ClassShape class_shape(const ClassTask& task, const at::Tensor& predictions, const at::Tensor& targets);

/// Throws MisuseError when one of `count` labels is none of 0 … task.count (of 0 and 1, unless multiclass) and not ignored.
void check_labels(const ClassTask& task, const std::int64_t* labels, std::int64_t count, const char* what);
[[noreturn]] void throw_nan_score(const ClassTask& task);
/// Throws MisuseError: `wrong` labels and scores on a device were none.
[[noreturn]] void throw_wrong_on_device(const ClassTask& task, double wrong);

[[noreturn]] void throw_no_probability(const ClassTask& task);

/// Whether scores are logits. Throws MisuseError when one is NaN, or not from 0 to 1 as probabilities are.
template <class T>
bool are_logits(const ClassTask& task, const T* scores, std::int64_t count) {
  bool outside = false, nan = false;
  for (std::int64_t index = 0; index < count; ++index) {
    outside |= scores[index] < 0 || scores[index] > 1;
    nan |= std::isnan(scores[index]);
  }
  if (nan) throw_nan_score(task);
  if (outside && task.scores == Scores::kProbabilities) throw_no_probability(task);
  return task.scores == Scores::kLogits || outside;
}

/// The probabilities of a batch's scores, in the order [sample, place, class]; for binary and multilabel as they lie. Of the
/// type of the scores. Throws MisuseError when one is NaN.
template <class T>
void take_probabilities(const ClassTask& task, const ClassShape& shape, const T* scores, std::vector<T>& probabilities) {
  const std::int64_t classes = task.task == Task::kBinary ? 1 : task.count;
  const std::int64_t count = shape.samples * classes * shape.inner;
  const bool logits = are_logits(task, scores, count);
  probabilities.resize(static_cast<std::size_t>(count));
  if (task.task != Task::kMulticlass) {
    for (std::int64_t index = 0; index < count; ++index) {
      probabilities[static_cast<std::size_t>(index)] = logits ? 1 / (1 + std::exp(-scores[index])) : scores[index];
    }
    return;
  }
  T* row = probabilities.data();
  for (std::int64_t place = 0; place < shape.samples * shape.inner; ++place, row += classes) {
    const T* first = scores + place / shape.inner * classes * shape.inner + place % shape.inner;
    T most = first[0], sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) most = std::max(most, row[c] = first[c * shape.inner]);
    if (!logits) continue;
    for (std::int64_t c = 0; c < classes; ++c) sum += row[c] = std::exp(row[c] - most);
    if (std::isnan(sum)) throw_nan_score(task);
    for (std::int64_t c = 0; c < classes; ++c) row[c] /= sum;
  }
}

/// Labels on a device: which of them there are not, and which are left out, which may be some of the former.
struct DeviceLabels {
  at::Tensor labels;
  at::Tensor wrong;
  at::Tensor ignored;
};
DeviceLabels device_labels(const ClassTask& task, const at::Tensor& targets);
/// How often each of 0 … size - 1 is among `places`, of kDouble.
at::Tensor count_places(const at::Tensor& places, std::int64_t size);

/// The numbers of the classes in the second dimension of a tensor of so many, on the device of `scores`.
at::Tensor class_index(const ClassTask& task, const at::Tensor& scores);

/// The same on any device, of kDouble: [places, classes] for multiclass, else in the shape of the scores. What is no
/// probability is NaN.
at::Tensor probabilities_on_device(const ClassTask& task, const at::Tensor& scores);

/// The task that options mean.
template <class O>
Task task_of(const O& options) {
  if (options.task) return *options.task;
  if (options.num_classes) return Task::kMulticlass;
  if constexpr (requires { options.num_labels; }) {
    if (options.num_labels) return Task::kMultilabel;
  }
  return Task::kBinary;
}

/// What is wrong with the task of options; empty: nothing.
template <class O>
std::string task_problem(const O& options) {
  const Task task = task_of(options);
  if (task == Task::kMulticlass && !options.num_classes) return "task 'multiclass' needs num_classes";
  if (task != Task::kMulticlass && options.num_classes) return "num_classes is for task 'multiclass'; leave one of them out";
  if constexpr (requires { options.num_labels; }) {
    if (task == Task::kMultilabel && !options.num_labels) return "task 'multilabel' needs num_labels";
    if (task != Task::kMultilabel && options.num_labels) return "num_labels is for task 'multilabel'; leave one of them out";
  } else if (task == Task::kMultilabel) {
    return "this metric has no task 'multilabel'";
  }
  if constexpr (requires { options.top_k; }) {
    if (options.top_k > 1 && task != Task::kMulticlass) return "top_k is for task 'multiclass'; leave it out";
    if (options.num_classes && options.top_k > *options.num_classes) return "top_k is more than num_classes";
  }
  return "";
}

/// The options that metrics of classes have in common: those of them that O has.
template <class O>
void declare_task(OptionList<O>& options) {
  options.add("task", &O::task, "binary, multiclass or multilabel; null: as num_classes and num_labels say");
  if constexpr (requires { &O::threshold; }) {
    options.add("threshold", &O::threshold, "A score above it is a yes").min(0).max(1);
  }
  options.add("num_classes", &O::num_classes, "Number of classes, for multiclass").min(2);
  if constexpr (requires { &O::num_labels; }) {
    options.add("num_labels", &O::num_labels, "Number of labels, for multilabel").min(2);
  }
  if constexpr (requires { &O::average; }) {
    options.add("average", &O::average, "How the values of classes become one; none: one value for each");
  }
  if constexpr (requires { &O::top_k; }) {
    options.add("top_k", &O::top_k, "multiclass: a label is found among so many highest scores").min(1);
  }
  options.add("ignore_index", &O::ignore_index, "What has this label is left out");
  if constexpr (requires { &O::zero_division; }) {
    options.add("zero_division", &O::zero_division, "The value where there is nothing to divide by").min(0).max(1);
  }
  options.add("scores", &O::scores, "What scores are; auto: logits where a batch has one outside of 0 to 1");
  options.rule({"task", "num_classes"}, [](const O& given) { return task_problem(given); });
}

template <class O>
ClassTask class_task(const char* metric, const O& options) {
  ClassTask task{.metric = metric, .task = task_of(options), .ignore_index = options.ignore_index, .scores = options.scores};
  if (options.num_classes) task.count = *options.num_classes;
  if constexpr (requires { options.num_labels; }) {
    if (options.num_labels) task.count = *options.num_labels;
  }
  if constexpr (requires { options.threshold; }) task.threshold = options.threshold;
  if constexpr (requires { options.top_k; }) task.top_k = options.top_k;
  return task;
}

}  // namespace levin::detail
