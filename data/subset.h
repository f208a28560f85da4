#pragma once

#include <vector>

#include "levin/core/export.h"
#include "levin/data/dataset.h"

namespace levin {

/// Some samples of another dataset, in the order of a list of indices.
class LEVIN_API Subset final : public Dataset {
 public:
  /// Throws MisuseError when the dataset is a null pointer or lacks one of the indices.
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

/// Divides a dataset at random into parts of these lengths: the numbers of torch.utils.data.random_split with
/// torch.Generator().manual_seed(seed). The same seed gives the same parts on every rank and in every run.
/// Throws MisuseError when the lengths do not add up to the dataset's size.
LEVIN_API std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset, const std::vector<std::int64_t>& lengths,
                                                            std::int64_t seed);
/// The same with fractions, which add up to 1: each part is rounded down, and the samples left over go to the parts in turn.
LEVIN_API std::vector<std::shared_ptr<Subset>> random_split(const DatasetPtr& dataset, const std::vector<double>& fractions,
                                                            std::int64_t seed);

}  // namespace levin
