#include "metrics/reference_inputs.h"

#include <cmath>

#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/metrics/regression.h"
#include "levin/metrics/text.h"

namespace levin::test {
namespace {

using Shape = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

double shaped(double u, const std::string& form) {
  if (form == "logit") return 8 * u - 4;
  if (form == "tie") return std::floor(5 * u) / 4;
  if (form == "same") return 0.5;
  if (form == "positive") return 0.1 + u;
  return form == "log" ? std::log(0.1 + u) : u;
}

at::Tensor numbers(Numbers& draw, const Shape& shape, const std::string& form) {
  at::Tensor values = torch::empty(shape, torch::kDouble);
  for (std::int64_t index = 0; index < values.numel(); ++index) values.mutable_data_ptr<double>()[index] = shaped(draw(), form);
  return values;
}

at::Tensor labels(Numbers& draw, const Shape& shape, std::int64_t count, const std::string& form, const Value* ignore) {
  at::Tensor values = torch::empty(shape, torch::kLong);
  for (std::int64_t index = 0; index < values.numel(); ++index) {
    std::int64_t value = draw.below(count);
    if (form == "one") value = 1;
    if (ignore != nullptr && draw() < 0.25) value = ignore->as_int();
    values.mutable_data_ptr<std::int64_t>()[index] = value;
  }
  return values;
}

std::string drawn_word(Numbers& draw) {
  static const Words kVocabulary = {"the", "cat", "sat", "on", "a", "mat", "straße", "日本", "x"};
  return kVocabulary[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(kVocabulary.size())))];
}

Words changed(Numbers& draw, const Words& words) {
  const auto kept = static_cast<std::size_t>(1 + draw.below(static_cast<std::int64_t>(words.size())));
  Words other;
  for (std::size_t index = 0; index < kept; ++index) other.push_back(draw() < 0.25 ? drawn_word(draw) : words[index]);
  return other;
}

MetricBatch drawn_batch(Numbers& draw, const Value& kind, std::int64_t size) {
  const auto text = [&](const char* key, const char* otherwise) {
    const Value* found = kind.find(key);
    return found == nullptr ? std::string(otherwise) : found->as_string();
  };
  const std::string task = text("task", ""), form = text("form", "unit"), label_form = text("labels", "any");
  const std::int64_t classes = kind.find("classes") == nullptr ? 0 : kind.at("classes").as_int();
  const Value* ignore = kind.find("ignore");
  Shape shape = {size}, with_classes = {size, classes};
  if (const Value* inner = kind.find("inner")) {
    for (const Value& each : inner->as_list()) {
      shape.push_back(each.as_int());
      with_classes.push_back(each.as_int());
    }
  }
  if (task == "multiclass") {
    const at::Tensor scores =
        form == "label" ? labels(draw, shape, classes, "any", nullptr) : numbers(draw, with_classes, form);
    return {.predictions = scores, .targets = labels(draw, shape, classes, label_form, ignore)};
  }
  if (task == "binary" || task == "multilabel") {
    const Shape& own = task == "binary" ? shape : with_classes;
    const at::Tensor scores = form == "label" ? labels(draw, own, 2, "any", nullptr) : numbers(draw, own, form);
    return {.predictions = scores, .targets = labels(draw, own, 2, label_form, ignore)};
  }
  if (task == "regression") {
    const at::Tensor targets = numbers(draw, shape, form);
    const at::Tensor predictions =
        form == "tie" ? numbers(draw, shape, form) : targets + 0.5 * numbers(draw, shape, "unit") - 0.25;
    return {.predictions = predictions, .targets = targets};
  }
  if (task == "tokens") {
    const at::Tensor logits = numbers(draw, {size, 5, classes}, form);
    return {.predictions = logits, .targets = labels(draw, {size, 5}, classes, label_form, ignore)};
  }
  if (task == "rows" || task == "values") {
    const at::Tensor predictions = numbers(draw, shape, form);
    return {.predictions = predictions, .targets = numbers(draw, shape, task == "rows" ? form : "unit")};
  }
  MetricBatch batch;
  for (std::int64_t index = 0; index < size; ++index) {
    Words target;
    const std::int64_t length = 4 + draw.below(9);
    for (std::int64_t word = 0; word < length; ++word) target.push_back(drawn_word(draw));
    const Words other = changed(draw, target);
    batch.references.push_back({join(target, " "), join(other, " ")});
    batch.texts.push_back(join(changed(draw, target), " "));
  }
  return batch;
}

}  // namespace

void MetricBatch::give(Metric& metric, bool weighted) const {
  if (auto* bleu = dynamic_cast<BLEUScore*>(&metric)) return bleu->update(texts, references);
  if (auto* edits = dynamic_cast<EditDistance*>(&metric)) {
    Words first;
    for (const Words& each : references) first.push_back(each.front());
    return edits->update(texts, first);
  }
  if (auto* aggregator = dynamic_cast<detail::Aggregator*>(&metric); aggregator != nullptr && !weighted) {
    return aggregator->update(predictions);
  }
  metric.update(predictions, targets);
}

std::vector<MetricBatch> batches_of(const Value& kind) {
  Numbers draw(kind.at("seed").as_int());
  std::vector<MetricBatch> batches;
  for (const Value& size : kind.at("sizes").as_list()) batches.push_back(drawn_batch(draw, kind, size.as_int()));
  return batches;
}

std::shared_ptr<Metric> made_metric(const std::string& name, const Value& options) {
  return Registry<Metric>::instance().make(Value(name), options);
}

}  // namespace levin::test
