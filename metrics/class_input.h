#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "levin/core/config/options.h"
#include "levin/metrics/classification.h"

// How metrics read tensors. What is wrong with one on the CPU is said at once, and labels are counted there with a plain loop,
// since some twenty tensor operations take ten times as long for a small batch. A device is not waited for.

namespace levin::detail {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A tensor on the CPU whose memory is that of so many values of this type, one after another.
at::Tensor plain(const at::Tensor& tensor, at::ScalarType type);
/// A copy of numbers that a metric has stored.
at::Tensor tensor_of(std::span<const double> numbers);
/// Labels on the CPU as plain integers. Throws MisuseError when they are floats that are not integers.
at::Tensor plain_labels(const std::string& metric, const at::Tensor& labels);

/// Throws MisuseError unless the two are on one device.
void check_same_device(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets);
/// Throws MisuseError unless the shapes are equal.
void check_same_shape(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets);
/// Throws MisuseError unless shapes and types are those that ClassCounter::update() wants.
void check_class_shape(const ClassTask& task, const at::Tensor& predictions, const at::Tensor& targets);
/// Throws MisuseError when one of the plain labels is not among 0 … task.count (of 0 and 1, unless multiclass) and not ignored.
void check_labels(const ClassTask& task, const at::Tensor& labels, const char* what);
/// The class of the highest score, the first of equal ones, in the shape of the labels; on the CPU, in one pass with
/// check_numbers(): the operations of either take longer than both for a small batch.
at::Tensor best_classes(const ClassTask& task, const at::Tensor& scores, const at::Tensor& labels);
/// Throws MisuseError when a score on the CPU is NaN, or not from 0 to 1 as probabilities are, where the label is not ignored.
void check_numbers(const ClassTask& task, const at::Tensor& scores, const at::Tensor& labels);
/// Throws MisuseError: `wrong` labels and scores on a device were none.
[[noreturn]] void throw_wrong_on_device(const ClassTask& task, double wrong);
/// Throws MisuseError when predictions are not scores of the shape that the task has; and, of what is on the CPU, when one
/// whose label is not ignored is NaN, or when there is no such label.
void check_scores(const ClassTask& task, const at::Tensor& predictions, const at::Tensor& targets);

/// Labels as tensors: which are out of range, and which are ignored, among them some of the former.
struct LabelTensors {
  at::Tensor labels;
  at::Tensor wrong;
  at::Tensor ignored;
};
LabelTensors label_tensors(const ClassTask& task, const at::Tensor& targets);
/// How often each of 0 … size - 1 is among `cells`, of kDouble.
at::Tensor count_cells(const at::Tensor& cells, std::int64_t size);

/// Labels of several classes (multilabel) with the class in the last dimension instead of the second; others unchanged.
at::Tensor class_last(const ClassTask& task, const at::Tensor& labels);
/// The numbers of the classes in the second dimension of a tensor of so many, on the device of `scores`.
at::Tensor class_index(const ClassTask& task, const at::Tensor& scores);

/// The probabilities of a batch's scores, of kDouble: [positions, classes] for multiclass, else in the shape of the scores.
/// Values that are not probabilities are NaN.
at::Tensor probabilities_of(const ClassTask& task, const at::Tensor& scores);

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
    options.add("threshold", &O::threshold, "A score above it is positive").min(0).max(1);
  }
  options.add("num_classes", &O::num_classes, "Number of classes, for multiclass").min(2);
  if constexpr (requires { &O::num_labels; }) {
    options.add("num_labels", &O::num_labels, "Number of labels, for multilabel").min(2);
  }
  if constexpr (requires { &O::average; }) {
    options.add("average", &O::average, "How the values of classes become one; none: one value for each");
  }
  if constexpr (requires { &O::top_k; }) {
    options.add("top_k", &O::top_k, "multiclass: a label may be among so many highest scores").min(1);
  }
  options.add("ignore_index", &O::ignore_index, "Samples with this label are ignored");
  if constexpr (requires { &O::zero_division; }) {
    options.add("zero_division", &O::zero_division, "The value where there is nothing to divide by").min(0).max(1);
  }
  options.add("scores", &O::scores, "What scores are; auto: logits where a batch has one outside of 0 to 1");
  options.rule({"task", "num_classes"}, [](const O& given) { return task_problem(given); });
}

/// Throws ConfigError as checked() does.
template <class O>
ClassTask class_task(const char* metric, const O& given) {
  const O options = checked(metric, given);
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
