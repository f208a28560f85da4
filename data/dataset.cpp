#include "levin/data/dataset.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/random/seed.h"
#include "levin/data/data_loader.h"
#include "levin/data/distributed_sampler.h"
#include "levin/data/random_parts.h"

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

namespace {

/// Seed and epoch.
thread_local std::optional<std::pair<std::int64_t, std::int64_t>> reading;

}  // namespace

at::Generator sample_generator(std::int64_t index) {
  const auto outside = [] { return std::pair(static_cast<std::int64_t>(global_seed().value_or(0)), std::int64_t{0}); };
  const auto [seed, epoch] = reading ? *reading : outside();
  return at::make_generator<at::CPUGeneratorImpl>(sample_seed(static_cast<std::uint64_t>(seed), epoch, index));
}

SampleSeedScope::SampleSeedScope(std::int64_t seed, std::int64_t epoch)
    : outer_(std::exchange(reading, std::pair(seed, epoch))) {}

SampleSeedScope::~SampleSeedScope() { reading = outer_; }

TensorDataset::TensorDataset(Batch tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty()) throw MisuseError("TensorDataset: give at least one tensor");
  for (std::size_t position = 0; position < tensors_.size(); ++position) {
    const auto& [name, tensor] = tensors_.items()[position];
    const std::string what = format("TensorDataset: tensor {}{}", position, name.empty() ? "" : format(" (\"{}\")", name));
    if (!tensor.defined() || tensor.dim() == 0) throw MisuseError(what + " has no first dimension to find samples in");
    if (position == 0) size_ = tensor.size(0);
    if (tensor.size(0) != size_) {
      throw MisuseError(format("{} has {} samples, the first tensor has {}", what, tensor.size(0), size_));
    }
  }
}

Batch TensorDataset::get_batch(std::span<const std::int64_t> indices) const {
  check_indices(indices, size_, "TensorDataset");
  const at::Tensor rows = at::empty({static_cast<std::int64_t>(indices.size())}, at::kLong);
  std::copy(indices.begin(), indices.end(), rows.mutable_data_ptr<std::int64_t>());
  std::vector<Batch::Item> selected;
  selected.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_.items()) {
    selected.emplace_back(name, at::index_select(tensor, 0, tensor.is_cpu() ? rows : rows.to(tensor.device())));
  }
  return Batch(std::move(selected));
}

std::optional<std::uint64_t> TensorDataset::fingerprint() const { return DataFingerprint().add(tensors_).value(); }

std::optional<std::int64_t> TensorDataset::bytes_to_copy() const {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors_.items()) {
    if (!tensor.is_cpu()) return std::nullopt;
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes / std::max<std::int64_t>(1, size_);
}

TransformDataset::TransformDataset(DatasetPtr dataset, Function function) : dataset_(std::move(dataset)) {
  if (function) {
    function_ = [function = std::move(function)](Batch batch, std::span<const std::int64_t>) {
      return function(std::move(batch));
    };
  }
  check();
}

void TransformDataset::check() const {
  if (!dataset_) throw MisuseError("TransformDataset: the dataset is a null pointer");
  if (!function_) throw MisuseError("TransformDataset: the function is empty");
}

Subset::Subset(DatasetPtr dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  if (!dataset_) throw MisuseError("Subset: the dataset is a null pointer");
  check_indices(indices_, dataset_->size(), "Subset");
}

Batch Subset::get_batch(std::span<const std::int64_t> indices) const {
  check_indices(indices, size(), "Subset");
  std::vector<std::int64_t> mapped;
  mapped.reserve(indices.size());
  for (const std::int64_t index : indices) mapped.push_back(indices_[static_cast<std::size_t>(index)]);
  return dataset_->get_batch(mapped);
}

std::optional<std::uint64_t> Subset::fingerprint() const {
  const auto whole = dataset_->fingerprint();
  if (!whole) return std::nullopt;
  return DataFingerprint().add(static_cast<std::int64_t>(*whole)).add(indices_).value();
}

namespace {

std::vector<std::int64_t> lengths_of_fractions(const std::vector<double>& fractions, std::int64_t size) {
  double sum = 0.0;
  for (const double fraction : fractions) {
    if (!(fraction >= 0.0 && fraction <= 1.0)) {
      throw MisuseError(format("random_split: the fraction {:f} is not between 0 and 1", fraction));
    }
    sum += fraction;
  }
  if (std::abs(sum - 1.0) > 1e-9) throw MisuseError(format("random_split: the fractions add up to {:f}, not to 1", sum));
  std::vector<std::int64_t> lengths;
  for (const double fraction : fractions)
    lengths.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fraction)));
  std::int64_t left_over = size - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (std::size_t part = 0; left_over > 0; part = (part + 1) % lengths.size(), --left_over) ++lengths[part];
  return lengths;
}

}  // namespace

std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset, const std::vector<std::int64_t>& lengths,
                                                  std::int64_t seed) {
  if (!dataset) throw MisuseError("random_split: the dataset is a null pointer");
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > dataset->size() - sum) {
      throw MisuseError(format("random_split: a part of {} samples does not fit into a dataset of {} of which {} are taken",
                               length, dataset->size(), sum));
    }
    sum += length;
  }
  if (sum != dataset->size()) {
    throw MisuseError(format("random_split: the lengths add up to {}, the dataset has {} samples", sum, dataset->size()));
  }
  const std::vector<std::int64_t> permutation = random_permutation(sum, seed);
  std::vector<std::shared_ptr<Subset>> parts;
  auto begin = permutation.begin();
  for (const std::int64_t length : lengths) {
    parts.push_back(std::make_shared<Subset>(dataset, std::vector<std::int64_t>(begin, begin + length)));
    begin += length;
  }
  return parts;
}

std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset, const std::vector<double>& fractions,
                                                  std::int64_t seed) {
  if (!dataset) throw MisuseError("random_split: the dataset is a null pointer");
  return random_split(dataset, lengths_of_fractions(fractions, dataset->size()), seed);
}

std::vector<std::uint8_t> detail::random_parts(std::int64_t size, const std::vector<double>& fractions, std::int64_t seed) {
  std::vector<std::uint8_t> parts(static_cast<std::size_t>(size));
  const std::vector<std::int64_t> lengths = lengths_of_fractions(fractions, size);
  // Numbers of either type are drawn alike.
  const auto type = size <= std::numeric_limits<std::int32_t>::max() ? at::kInt : at::kLong;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed));
  const at::Tensor order = at::randperm(size, generator, at::TensorOptions(type));
  const auto assign = [&](const auto* sample) {
    for (std::size_t part = 0; part < lengths.size(); ++part)
      for (std::int64_t number = 0; number < lengths[part]; ++number)
        parts[static_cast<std::size_t>(*sample++)] = static_cast<std::uint8_t>(part);
  };
  type == at::kInt ? assign(order.const_data_ptr<std::int32_t>()) : assign(order.const_data_ptr<std::int64_t>());
  return parts;
}

namespace {

constexpr std::int64_t kElements = 2048;

/// Calls `read` with some of `size` indices, one at random in each of so many equal stretches: indices at equal distances might
/// all be of one column. The same on every host.
template <class Read>
void sample_indices(std::int64_t size, std::int64_t wanted, const Read& read) {
  const std::int64_t stretches = std::min(size, wanted);
  std::uint64_t random = 1;
  for (std::int64_t stretch = 0; stretch < stretches; ++stretch) {
    // In steps that do not overflow for any size.
    const auto start_of = [&](std::int64_t index) { return size / stretches * index + size % stretches * index / stretches; };
    const std::int64_t begin = start_of(stretch);
    random = random * 6364136223846793005U + 1442695040888963407U;
    read(begin + static_cast<std::int64_t>((random >> 33) % static_cast<std::uint64_t>(start_of(stretch + 1) - begin)));
  }
}

/// The bytes of an element, by its index in the order of rows.
std::string_view element(const at::Tensor& tensor, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::int64_t dimension = tensor.dim() - 1; dimension >= 0; --dimension) {
    const std::int64_t size = tensor.size(dimension);
    offset += index % size * tensor.stride(dimension);
    index /= size;
  }
  const auto bytes = static_cast<std::int64_t>(tensor.element_size());
  return {static_cast<const char*>(tensor.const_data_ptr()) + offset * bytes, static_cast<std::size_t>(bytes)};
}

bool has_readable_elements(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

void DataFingerprint::add_bytes(std::string_view bytes) {
  Fnv1aHash hash;
  hash.add_number(hash_);
  hash.add(bytes);
  hash_ = hash.value();
}

DataFingerprint& DataFingerprint::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  add_bytes(text);
  return *this;
}

DataFingerprint& DataFingerprint::add(std::int64_t number) {
  add_bytes({reinterpret_cast<const char*>(&number), sizeof number});
  return *this;
}

DataFingerprint& DataFingerprint::add(std::span<const std::int64_t> numbers) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  add(size);
  sample_indices(size, kElements, [&](std::int64_t index) { add(numbers[static_cast<std::size_t>(index)]); });
  return *this;
}

DataFingerprint& DataFingerprint::add(const Batch& tensors) {
  // Of many tensors a few elements each.
  const std::int64_t of_each =
      std::max<std::int64_t>(kElements / std::max<std::int64_t>(static_cast<std::int64_t>(tensors.size()), 1), 8);
  for (const auto& [name, tensor] : tensors.items()) {
    std::ostringstream kind;
    kind << name << '|';
    if (tensor.defined()) kind << tensor.sizes() << '|' << tensor.scalar_type();
    add(kind.str());
    if (!has_readable_elements(tensor)) continue;
    sample_indices(tensor.numel(), of_each, [&, &values = tensor](std::int64_t index) { add_bytes(element(values, index)); });
  }
  return *this;
}

}  // namespace levin
