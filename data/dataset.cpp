#include "levin/data/dataset.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

Dataset::~Dataset() = default;

Batch SampleDataset::get_batch(std::span<const std::int64_t> indices) const {
  std::vector<Batch> samples;
  samples.reserve(indices.size());
  for (const std::int64_t index : indices) samples.push_back(get_sample(index));
  return collate(samples);
}

Batch SampleDataset::collate(std::span<const Batch> samples) const { return stack_samples(samples); }

namespace {

std::string describe(const Batch::Item& item) {
  const auto& [name, tensor] = item;
  std::ostringstream text;
  if (!name.empty()) text << "\"" << name << "\" ";
  if (tensor.defined()) {
    text << "of shape " << tensor.sizes() << " and type " << tensor.scalar_type();
  } else {
    text << "undefined";
  }
  return text.str();
}

bool can_stack(const Batch::Item& left, const Batch::Item& right) {
  if (left.first != right.first || !left.second.defined() || !right.second.defined()) return false;
  return left.second.sizes() == right.second.sizes() && left.second.scalar_type() == right.second.scalar_type();
}

void check_alike(std::span<const Batch> samples) {
  const std::vector<Batch::Item>& first = samples.front().items();
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const std::vector<Batch::Item>& items = samples[row].items();
    if (items.size() != first.size()) {
      throw MisuseError(format("sample {} of the batch has {} tensors, sample 0 has {}: every sample needs the same tensors",
                               row, items.size(), first.size()));
    }
    for (std::size_t position = 0; position < items.size(); ++position) {
      if (can_stack(items[position], first[position])) continue;
      throw MisuseError(
          format("sample {} of the batch: tensor {} is {}, in sample 0 it is {}: give samples one shape, or override "
                 "SampleDataset::collate()",
                 row, position, describe(items[position]), describe(first[position])));
    }
  }
}

}  // namespace

Batch stack_samples(std::span<const Batch> samples) {
  if (samples.empty()) return {};
  check_alike(samples);
  std::vector<Batch::Item> stacked;
  std::vector<at::Tensor> column(samples.size());
  for (std::size_t position = 0; position < samples.front().size(); ++position) {
    std::transform(samples.begin(), samples.end(), column.begin(), [&](const Batch& sample) { return sample[position]; });
    stacked.emplace_back(samples.front().items()[position].first, at::stack(column));
  }
  return Batch(std::move(stacked));
}

}  // namespace levin
