#include "levin/data/dataset.h"

#include <cmath>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/check_indices.h"
#include "levin/data/sampler.h"

namespace levin {

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

}  // namespace levin
