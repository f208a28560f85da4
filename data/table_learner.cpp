#include "levin/data/table_learner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/std_mean.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/text_codes.h"

namespace levin::detail {

namespace {

/// As Moments has them, of one part.
struct PartMoments {
  at::Tensor count, mean, deviation;
};

PartMoments moments_of(const at::Tensor& rows) {
  const at::Tensor is_finite = at::isfinite(rows);
  if (rows.size(0) > 0 && is_finite.all().item<bool>()) {
    const auto [deviation, mean] = at::std_mean(rows, at::IntArrayRef{0}, /*unbiased=*/false, /*keepdim=*/false);
    return {at::full_like(mean, static_cast<double>(rows.size(0))), mean, deviation};
  }
  const at::Tensor count = is_finite.sum(0).to(rows.scalar_type());
  const auto mean_of = [&](const at::Tensor& values) { return at::where(is_finite, values, 0.0).sum(0) / count.clamp_min(1); };
  const at::Tensor mean = mean_of(rows);
  return {count, mean, mean_of((rows - mean).square()).sqrt()};
}

}  // namespace

void Moments::add(const at::Tensor& rows) {
  if (rows.size(0) == 0 && mean_.defined()) return;
  const auto [count, mean, deviation] = moments_of(rows);
  if (!mean_.defined()) {
    count_ = count;
    mean_ = mean;
    deviation_ = deviation;
    return;
  }
  const at::Tensor all = (count_ + count).clamp_min(1);
  const at::Tensor difference = mean - mean_;
  const at::Tensor within = deviation_.square() * (count_ / all) + deviation.square() * (count / all);
  deviation_ = (within + difference.square() * (count_ / all * count / all)).sqrt();
  mean_ = mean_ + difference * (count / all);
  count_ = count_ + count;
}

LabelScale Moments::scale() const {
  LabelScale scale;
  if (!mean_.defined()) return scale;
  scale.mean = mean_.item<double>();
  if (const double deviation = deviation_.item<double>(); deviation > 0) scale.deviation = deviation;
  return scale;
}

void LabelSummary::add(const at::Tensor& labels) {
  rows_ += labels.numel();
  if (labels.numel() == 0) return;
  if (labels.is_floating_point()) return moments_.add(labels);
  const auto least = labels.min().item<std::int64_t>(), most = labels.max().item<std::int64_t>();
  least_ = std::min(least_.value_or(least), least);
  most_ = std::max(most_.value_or(most), most);
}

void TextUnion::add(const std::vector<std::string>& texts, const std::vector<bool>& occurring) {
  if (parts_++ == 0) of_first_part_ = texts;
  for (std::size_t text = 0; text < texts.size(); ++text) {
    bool& occurs = occurs_[texts[text]];
    occurs = occurs || occurring[text];
  }
}

std::vector<std::string> TextUnion::occurring(bool as_numbers) const {
  std::vector<std::string> texts = of_first_part_;
  if (parts_ > 1) {
    texts.clear();
    for (const auto& [text, occurs] : occurs_) texts.push_back(text);
    texts = sorted_texts(std::move(texts), as_numbers, '.');
  }
  std::erase_if(texts, [&](const std::string& text) { return !occurs_.at(text); });
  return texts;
}

void TableLearner::add(const LabelledTable& training) {
  if (shape_.empty()) {
    file_ = training.file;
    label_column_ = training.label_column;
    columns_ = training.columns;
    shape_ = training.features.sizes().slice(1).vec();
  }
  add_texts(training);
  add_classes(training);
  if (options_.standardize) features_.add(training.features);
  if (options_.standardize_labels) labels_.add(training.labels);
}

void TableLearner::add_texts(const LabelledTable& training) {
  for (const auto& [column, feature] : training.texts) {
    std::vector<bool> occurs(feature.texts.size());
    const at::Tensor numbers = training.features.select(1, column).to(at::kLong).contiguous();
    const auto* const first = numbers.const_data_ptr<std::int64_t>();
    std::for_each(first, first + numbers.numel(), [&](std::int64_t text) { occurs[static_cast<std::size_t>(text)] = true; });
    Feature& known = texts_[column];
    known.column = feature.column;
    known.is_one_hot = feature.is_one_hot;
    known.texts.add(feature.texts, occurs);
  }
}

void TableLearner::add_classes(const LabelledTable& training) {
  const bool has_classes = !training.classes.empty();
  if (has_classes || training.labels.numel() > 0) {
    if (has_classes_.value_or(has_classes) != has_classes)
      throw ConfigError(format("{}: the labels of some rows are texts, those of others are not", training.file));
    has_classes_ = has_classes;
  }
  are_class_numbers_ = are_class_numbers_ || training.are_classes_numbers;
  if (has_classes) classes_.add(training.classes, std::vector<bool>(training.classes.size(), true));
}

std::map<std::int64_t, TableCategories> TableLearner::categories() const {
  std::map<std::int64_t, TableCategories> categories;
  for (const auto& [column, feature] : texts_) {
    categories[column] = {
        .column = feature.column, .texts = feature.texts.occurring(/*as_numbers=*/true), .one_hot = feature.is_one_hot};
  }
  return categories;
}

}  // namespace levin::detail
