#include "levin/metrics/class_input.h"

#include <algorithm>
#include <cmath>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin::detail {

at::Tensor plain(const at::Tensor& tensor, at::ScalarType type) {
  const bool is_plain = tensor.scalar_type() == type && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
  return is_plain ? tensor : tensor.detach().to(type).contiguous().resolve_conj().resolve_neg();
}

at::Tensor tensor_of(std::span<const double> numbers) {
  return at::tensor(at::ArrayRef<double>(numbers.data(), numbers.size()), at::kDouble);
}

at::Tensor plain_labels(const std::string& metric, const at::Tensor& labels) {
  const at::Tensor integers = plain(labels, at::kLong);
  if (labels.is_floating_point() && !at::equal(integers.to(labels.scalar_type()), labels)) {
    const at::Tensor wrong = labels.detach().masked_select(labels.ne(integers)).to(at::kDouble);
    throw MisuseError(format("{} takes labels, which are integers, and got {} as one.", metric, wrong[0].item<double>()));
  }
  return integers;
}

void check_same_device(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets) {
  if (predictions.device() == targets.device()) return;
  throw MisuseError(format("{} got predictions on {} and targets on {}: move one of them to the other's device.", metric,
                           predictions.device().str(), targets.device().str()));
}

void check_same_shape(const std::string& metric, const at::Tensor& predictions, const at::Tensor& targets) {
  if (predictions.sizes() == targets.sizes()) return;
  throw MisuseError(format("{} takes predictions and targets of one shape, and got {} and {}.", metric,
                           c10::str(predictions.sizes()), c10::str(targets.sizes())));
}

void check_class_shape(const ClassTask& task, const at::Tensor& predictions, const at::Tensor& targets) {
  const at::IntArrayRef given = predictions.sizes(), labels = targets.sizes();
  bool fits = !predictions.is_complex() && !targets.is_complex();
  if (task.task != Task::kMulticlass) {
    fits = fits && given == labels && (task.task == Task::kBinary || (labels.size() >= 2 && labels[1] == task.count));
  } else if (!predictions.is_floating_point()) {
    fits = fits && given == labels && !labels.empty() && !targets.is_floating_point() && task.top_k == 1;
  } else {
    fits = fits && given.size() == labels.size() + 1 && !labels.empty() && !targets.is_floating_point() &&
           given[0] == labels[0] && given[1] == task.count && given.slice(2) == labels.slice(1);
  }
  if (fits) return;
  const std::string wanted =
      task.task == Task::kMulticlass   ? format("scores [N, {}, …] or labels [N, …] with targets [N, …]", task.count)
      : task.task == Task::kMultilabel ? format("scores or labels [N, {}, …] with targets alike", task.count)
                                       : "scores or labels with targets of the same shape";
  throw MisuseError(format("{} ({}) takes {}, and got predictions {} of {} and targets {} of {}.", task.metric,
                           choice_name(task.task), wanted, c10::str(given), c10::toString(predictions.scalar_type()),
                           c10::str(labels), c10::toString(targets.scalar_type())));
}

void check_labels(const ClassTask& task, const at::Tensor& labels, const char* what) {
  const std::int64_t end = task.task == Task::kMulticlass ? task.count : 2;
  const std::int64_t* label = labels.const_data_ptr<std::int64_t>();
  for (std::int64_t index = 0; index < labels.numel(); ++index, ++label) {
    if ((*label >= 0 && *label < end) || *label == task.ignore_index) continue;
    throw MisuseError(format(
        "{} ({}) takes labels from 0 to {}{}, and got {} at index {} of the {}.", task.metric, choice_name(task.task), end - 1,
        task.ignore_index ? format(", or {} for what is left out", *task.ignore_index) : "", *label, index, what));
  }
}

namespace {

void refuse_numbers(const ClassTask& task, bool has_nan, bool are_outside) {
  if (has_nan) {
    throw MisuseError(format("{} got a prediction that is NaN: find where the model's output becomes NaN.", task.metric));
  }
  if (are_outside && task.scores == Scores::kProbabilities) {
    throw MisuseError(
        format("{} has scores: probabilities, and got one that is not from 0 to 1: take 'logits' for scores before a "
               "sigmoid or softmax.",
               task.metric));
  }
}

template <class Number>
void take_best(const ClassTask& task, const at::Tensor& scores, const at::Tensor& labels, const at::Tensor& best) {
  const at::Tensor values = plain(scores, c10::CppTypeToScalarType<Number>::value);
  const auto* row = values.const_data_ptr<Number>();
  const auto* label = labels.const_data_ptr<std::int64_t>();
  auto* out = best.mutable_data_ptr<std::int64_t>();
  const std::int64_t samples = scores.size(0), inner = best.numel() / std::max<std::int64_t>(samples, 1);
  bool has_nan = false, are_outside = false;
  for (std::int64_t sample = 0; sample < samples; ++sample, row += task.count * inner) {
    for (std::int64_t position = 0; position < inner; ++position, ++out, ++label) {
      *out = 0;
      const bool counts = *label != task.ignore_index;
      for (std::int64_t each = 0; each < task.count; ++each) {
        const Number score = row[each * inner + position];
        has_nan |= counts && std::isnan(score);
        are_outside |= counts && (score < 0 || score > 1);
        if (score > row[*out * inner + position]) *out = each;
      }
    }
  }
  refuse_numbers(task, has_nan, are_outside);
}

}  // namespace

at::Tensor best_classes(const ClassTask& task, const at::Tensor& scores, const at::Tensor& labels) {
  const at::Tensor best = at::empty(labels.sizes(), at::kLong);
  const bool is_double = scores.scalar_type() == at::kDouble;
  is_double ? take_best<double>(task, scores, labels, best) : take_best<float>(task, scores, labels, best);
  return best;
}

void check_numbers(const ClassTask& task, const at::Tensor& scores, const at::Tensor& labels) {
  if (scores.numel() == 0) return;
  at::Tensor counting = scores.detach();
  if (task.ignore_index) {
    const at::Tensor ignored = labels.eq(*task.ignore_index);
    counting = counting.masked_fill(task.task == Task::kMulticlass ? ignored.unsqueeze(1) : ignored, 0);
  }
  const auto [least, most] = at::aminmax(counting);
  refuse_numbers(task, std::isnan(least.item<double>()), least.item<double>() < 0 || most.item<double>() > 1);
}

void check_scores(const ClassTask& task, const at::Tensor& predictions, const at::Tensor& targets) {
  check_class_shape(task, predictions, targets);
  if (!predictions.is_floating_point()) {
    throw MisuseError(format("{} takes scores, which are floats, and got predictions {} of {}.", task.metric,
                             c10::str(predictions.sizes()), c10::toString(predictions.scalar_type())));
  }
  check_same_device(task.metric, predictions, targets);
  if (!predictions.is_cpu()) return;
  check_labels(task, plain_labels(task.metric, targets), "targets");
  check_numbers(task, predictions, targets);
}

void throw_wrong_on_device(const ClassTask& task, double wrong) {
  throw MisuseError(
      format("{} got {:.0f} predictions or targets that are NaN{} or labels out of range: {} takes labels from 0 to {}.",
             task.metric, wrong, task.scores == Scores::kProbabilities ? ", no probabilities" : "", choice_name(task.task),
             task.task == Task::kMulticlass ? task.count - 1 : 1));
}

LabelTensors label_tensors(const ClassTask& task, const at::Tensor& targets) {
  const at::Tensor labels = targets.detach().to(at::kLong);
  at::Tensor wrong = labels.lt(0).bitwise_or(labels.ge(task.task == Task::kMulticlass ? task.count : 2));
  if (targets.is_floating_point()) wrong = wrong.bitwise_or(targets.detach().ne(labels));
  const at::Tensor ignored = task.ignore_index ? labels.eq(*task.ignore_index) : at::zeros_like(labels, at::kBool);
  return {labels, wrong, ignored};
}

at::Tensor count_cells(const at::Tensor& cells, std::int64_t size) {
  const at::Tensor counts = at::zeros({size}, cells.options().dtype(at::kDouble));
  return counts.scatter_add_(0, cells, at::ones(cells.sizes(), counts.options()));
}

at::Tensor class_last(const ClassTask& task, const at::Tensor& labels) {
  return task.task == Task::kMultilabel ? labels.movedim(1, -1) : labels;
}

at::Tensor class_index(const ClassTask& task, const at::Tensor& scores) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(scores.dim()), 1);
  sizes[1] = task.count;
  return at::arange(task.count, scores.options().dtype(at::kLong)).reshape(sizes);
}

at::Tensor probabilities_of(const ClassTask& task, const at::Tensor& scores) {
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
