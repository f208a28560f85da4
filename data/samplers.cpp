#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/data/data_loader.h"

namespace levin {

LEVIN_REGISTER_SAMPLER(SequentialSampler, "Each sample once, in the dataset's order");
LEVIN_REGISTER_SAMPLER(RandomSampler, "Each sample once, in a new order in each epoch");

Sampler::~Sampler() = default;
BatchSampler::~BatchSampler() = default;

std::int64_t Sampler::size(std::int64_t dataset_size) const { return dataset_size; }

namespace {

at::Generator seeded_generator(std::int64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed));
}

/// Sums wrap around, so that any seed is a good one.
std::int64_t seed_of(const EpochKey& key) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(key.seed) + static_cast<std::uint64_t>(key.epoch));
}

std::vector<std::int64_t> to_vector(const at::Tensor& indices) {
  const auto* data = indices.const_data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(data, data + indices.numel());
}

}  // namespace

std::vector<std::int64_t> random_permutation(std::int64_t size, std::int64_t seed) {
  return to_vector(at::randperm(size, seeded_generator(seed), at::TensorOptions(at::kLong)));
}

std::vector<std::int64_t> SequentialSampler::order(const EpochKey& key) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(key.dataset_size));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<std::int64_t> RandomSampler::order(const EpochKey& key) const {
  return random_permutation(key.dataset_size, seed_of(key));
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t samples_per_epoch, bool replacement)
    : weights_(std::move(weights)), samples_per_epoch_(samples_per_epoch), replacement_(replacement) {
  const auto usable = std::count_if(weights_.begin(), weights_.end(), [](double weight) { return weight > 0.0; });
  for (std::size_t index = 0; index < weights_.size(); ++index) {
    if (std::isfinite(weights_[index]) && weights_[index] >= 0.0) continue;
    throw MisuseError(
        format("WeightedRandomSampler: weight {} is {:f}; weights are finite and not negative", index, weights_[index]));
  }
  if (samples_per_epoch_ < 0) throw MisuseError("WeightedRandomSampler: samples_per_epoch is negative");
  if (samples_per_epoch_ > 0 && usable == 0) throw MisuseError("WeightedRandomSampler: every weight is 0");
  if (!replacement_ && samples_per_epoch_ > usable) {
    throw MisuseError(
        format("WeightedRandomSampler: without replacement {} samples cannot be drawn from {} with a weight above 0",
               samples_per_epoch_, usable));
  }
}

std::int64_t WeightedRandomSampler::size(std::int64_t dataset_size) const {
  if (static_cast<std::int64_t>(weights_.size()) != dataset_size) {
    throw MisuseError(
        format("WeightedRandomSampler has {} weights for a dataset of {} samples", weights_.size(), dataset_size));
  }
  return samples_per_epoch_;
}

std::vector<std::int64_t> WeightedRandomSampler::order(const EpochKey& key) const {
  if (samples_per_epoch_ == 0) return {};
  const at::Tensor weights = at::tensor(weights_, at::kDouble);
  return to_vector(at::multinomial(weights, samples_per_epoch_, replacement_, seeded_generator(seed_of(key))));
}

LengthBatchSampler::LengthBatchSampler(std::vector<std::int64_t> lengths, const LengthBatchOptions& options)
    : lengths_(std::move(lengths)), options_(options) {
  if (options_.max_tokens < 1 && options_.max_samples < 1) {
    throw MisuseError("LengthBatchSampler: give max_tokens, max_samples, or both");
  }
  std::vector<std::int64_t> sorted = lengths_;
  std::ranges::sort(sorted);
  std::int64_t begin = 0;
  for (std::int64_t sample = 0; sample < std::ssize(sorted); ++sample) {
    const std::int64_t length = sorted[static_cast<std::size_t>(sample)];
    if (length < 0 || (options_.max_tokens > 0 && length > options_.max_tokens)) {
      throw MisuseError(format("LengthBatchSampler: a sample has length {}, and max_tokens is {}: leave it out, or cut it",
                               length, options_.max_tokens));
    }
    const std::int64_t samples = sample - begin + 1;
    const bool is_full = (options_.max_tokens > 0 && length * samples > options_.max_tokens) ||
                         (options_.max_samples > 0 && samples > options_.max_samples);
    if (!is_full) continue;
    ends_.push_back(sample);
    begin = sample;
  }
  if (!sorted.empty()) ends_.push_back(std::ssize(sorted));
}

std::int64_t LengthBatchSampler::size(std::int64_t dataset_size) const {
  if (std::ssize(lengths_) != dataset_size) {
    throw MisuseError(format("LengthBatchSampler has {} lengths for a dataset of {} samples", lengths_.size(), dataset_size));
  }
  return std::ssize(ends_);
}

std::vector<std::vector<std::int64_t>> LengthBatchSampler::batches(const EpochKey& key) const {
  const std::int64_t seed = seed_of(key);
  std::vector<std::int64_t> samples(lengths_.size());
  std::iota(samples.begin(), samples.end(), 0);
  if (options_.shuffle) samples = random_permutation(std::ssize(samples), seed);
  std::ranges::stable_sort(samples, {}, [&](std::int64_t sample) { return lengths_[static_cast<std::size_t>(sample)]; });
  std::vector<std::vector<std::int64_t>> made;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends_) {
    made.emplace_back(samples.begin() + begin, samples.begin() + end);
    begin = end;
  }
  if (!options_.shuffle) return made;
  std::vector<std::vector<std::int64_t>> shuffled;
  for (const std::int64_t batch : random_permutation(std::ssize(made), seed)) {
    shuffled.push_back(std::move(made[static_cast<std::size_t>(batch)]));
  }
  return shuffled;
}

}  // namespace levin
