#include "levin/metrics/class_input.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::detail {

std::string shape_text(const at::Tensor& tensor) {
  return "[" + join(tensor.sizes(), ", ", [](std::int64_t size) { return std::to_string(size); }) + "]";
}

Plain<std::int64_t> plain_labels(const std::string& metric, const at::Tensor& labels) {
  Plain<std::int64_t> plain(labels);
  if (!labels.is_floating_point()) return plain;
  with_scores(labels, [&](const auto* floats) {
    for (std::int64_t index = 0; index < labels.numel(); ++index) {
      if (static_cast<double>(floats[index]) == static_cast<double>(plain.data()[index])) continue;
      throw MisuseError(format("{} takes labels, which are integers, and got {} as one.", metric, floats[index]));
    }
  });
  return plain;
}

bool on_cpu(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets) {
  if (predictions.device() != targets.device()) {
    throw MisuseError(format("{} got predictions on {} and targets on {}: move one of them to the other's device.", metric,
                             predictions.device().str(), targets.device().str()));
  }
  return predictions.is_cpu();
}

void check_same_shape(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets) {
  if (predictions.sizes() == targets.sizes()) return;
  throw MisuseError(format("{} takes predictions and targets of one shape, and got {} and {}.", metric, shape_text(predictions),
                           shape_text(targets)));
}

namespace {

[[noreturn]] void throw_shapes(const ClassTask& task, const at::Tensor& predictions, const at::Tensor& targets) {
  const std::string count = std::to_string(task.count);
  const std::string wanted = task.task == Task::kMulticlass
                                 ? "scores [N, " + count + ", …] or labels [N, …] with targets [N, …]"
                             : task.task == Task::kMultilabel ? "scores or labels [N, " + count + ", …] with targets alike"
                                                              : "scores or labels with targets of the same shape";
  throw MisuseError(format("{} ({}) takes {}, and got predictions {} of {} and targets {} of {}.", task.metric,
                           choice_name(task.task), wanted, shape_text(predictions), c10::toString(predictions.scalar_type()),
                           shape_text(targets), c10::toString(targets.scalar_type())));
}

}  // namespace

ClassShape class_shape(const ClassTask& task, const at::Tensor& predictions, const at::Tensor& targets) {
  const at::IntArrayRef given = predictions.sizes();
  const at::IntArrayRef labels = targets.sizes();
  ClassShape shape{.scores = predictions.is_floating_point()};
  const bool complex = predictions.is_complex() || targets.is_complex();
  if (task.task == Task::kMulticlass) {
    if (labels.empty() || targets.is_floating_point() || complex) throw_shapes(task, predictions, targets);
    shape.samples = labels[0];
    for (const std::int64_t size : labels.slice(1)) shape.inner *= size;
    const bool fits = shape.scores ? given.size() == labels.size() + 1 && given[0] == labels[0] && given[1] == task.count &&
                                         given.slice(2) == labels.slice(1)
                                   : given == labels && task.top_k == 1;
    if (!fits) throw_shapes(task, predictions, targets);
    return shape;
  }
  if (given != labels || complex) throw_shapes(task, predictions, targets);
  if (task.task == Task::kBinary) {
    shape.samples = targets.numel();
    return shape;
  }
  if (labels.size() < 2 || labels[1] != task.count) throw_shapes(task, predictions, targets);
  shape.samples = labels[0];
  for (const std::int64_t size : labels.slice(2)) shape.inner *= size;
  return shape;
}

void check_labels(const ClassTask& task, const std::int64_t* labels, std::int64_t count, const char* what) {
  const std::int64_t end = task.task == Task::kMulticlass ? task.count : 2;
  bool wrong = false;
  for (std::int64_t index = 0; index < count; ++index)
    wrong |= static_cast<std::uint64_t>(labels[index]) >= static_cast<std::uint64_t>(end);
  if (!wrong) return;
  for (std::int64_t index = 0; index < count; ++index) {
    const std::int64_t label = labels[index];
    if ((label >= 0 && label < end) || label == task.ignore_index) continue;
    throw MisuseError(format(
        "{} ({}) takes labels from 0 to {}{}, and got {} at place {} of the {}.", task.metric, choice_name(task.task), end - 1,
        task.ignore_index ? format(", or {} for what is left out", *task.ignore_index) : "", label, index, what));
  }
}

void throw_nan_score(const ClassTask& task) {
  throw MisuseError(format("{} got a prediction that is NaN: look for where the model's output becomes that.", task.metric));
}

void throw_no_probability(const ClassTask& task) {
  throw MisuseError(
      format("{} has scores: probabilities, and got one that is not from 0 to 1: take 'logits' for scores before a "
             "sigmoid or softmax.",
             task.metric));
}

void throw_wrong_on_device(const ClassTask& task, double wrong) {
  throw MisuseError(
      format("{} got {:.0f} predictions or targets that are NaN or labels that there are not: {} takes labels "
             "from 0 to {}.",
             task.metric, wrong, choice_name(task.task), task.task == Task::kMulticlass ? task.count - 1 : 1));
}

DeviceLabels device_labels(const ClassTask& task, const at::Tensor& targets) {
  const at::Tensor labels = targets.detach().to(at::kLong);
  at::Tensor wrong = labels.lt(0).bitwise_or(labels.ge(task.task == Task::kMulticlass ? task.count : 2));
  if (targets.is_floating_point()) wrong = wrong.bitwise_or(targets.detach().ne(labels));
  const at::Tensor ignored = task.ignore_index ? labels.eq(*task.ignore_index) : at::zeros_like(labels, at::kBool);
  return {labels, wrong, ignored};
}

at::Tensor count_places(const at::Tensor& places, std::int64_t size) {
  const at::Tensor counts = at::zeros({size}, places.options().dtype(at::kDouble));
  return counts.scatter_add_(0, places, at::ones(places.sizes(), counts.options()));
}

at::Tensor class_index(const ClassTask& task, const at::Tensor& scores) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(scores.dim()), 1);
  sizes[1] = task.count;
  return at::arange(task.count, at::kLong).to(scores.device()).reshape(sizes);
}

at::Tensor probabilities_on_device(const ClassTask& task, const at::Tensor& scores) {
  const at::Tensor numbers = scores.detach().to(at::kDouble);
  const bool multiclass = task.task == Task::kMulticlass;
  const at::Tensor taken = multiclass ? at::softmax(numbers, 1) : at::sigmoid(numbers);
  const at::Tensor outside = numbers.lt(0).bitwise_or(numbers.gt(1));
  at::Tensor probabilities = task.scores == Scores::kLogits ? taken
                             : task.scores == Scores::kAuto ? at::where(outside.any(), taken, numbers)
                                                            : numbers.masked_fill(outside, std::nan(""));
  if (multiclass) probabilities = probabilities.movedim(1, -1).reshape({-1, task.count});
  return probabilities.contiguous();
}

}  // namespace levin::detail
