#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// What decides an epoch's order: with these equal, the order is equal, on every rank and in every run.
struct LEVIN_API EpochKey {
  std::int64_t dataset_size = 0;
  std::int64_t seed = 0;  ///< DataLoaderOptions::seed, else the seed of seed_everything
  std::int64_t epoch = 0;
};

/// The order in which an epoch visits the samples, over all ranks together; the loader then gives each rank its part.
/// Derive from it for an order of your own: it is respected as it is, and never shuffled again.
class LEVIN_API Sampler {
 public:
  virtual ~Sampler();
  /// Indices of the epoch's samples. Ranks: every rank calls it and must get the same; use nothing but `key` and fixed state.
  virtual std::vector<std::int64_t> order(const EpochKey& key) const = 0;
  /// How many indices order() gives, in each epoch. Default: every sample once.
  virtual std::int64_t size(std::int64_t dataset_size) const;
  /// Whether two epochs differ in order.
  virtual bool shuffles() const = 0;
};

/// 0, 1, 2, …
class LEVIN_API SequentialSampler final : public Sampler {
 public:
  std::vector<std::int64_t> order(const EpochKey& key) const override;
  bool shuffles() const override { return false; }
};

/// A permutation, new in each epoch: number for number that of torch's DistributedSampler(shuffle=True, seed=seed) after
/// set_epoch(epoch), before it is divided over ranks.
class LEVIN_API RandomSampler final : public Sampler {
 public:
  std::vector<std::int64_t> order(const EpochKey& key) const override;
  bool shuffles() const override { return true; }
};

/// Draws samples by weight, as torch's WeightedRandomSampler with a generator seeded with seed + epoch.
class LEVIN_API WeightedRandomSampler final : public Sampler {
 public:
  /// One weight a sample, not negative; they need not add up to 1. With `replacement` a sample may come several times.
  /// Throws MisuseError on weights that cannot be drawn from.
  WeightedRandomSampler(std::vector<double> weights, std::int64_t samples_per_epoch, bool replacement = true);
  std::vector<std::int64_t> order(const EpochKey& key) const override;
  std::int64_t size(std::int64_t dataset_size) const override;
  bool shuffles() const override { return true; }

 private:
  std::vector<double> weights_;
  std::int64_t samples_per_epoch_;
  bool replacement_;
};

/// A permutation of 0 … size - 1: torch.randperm(size, generator=torch.Generator().manual_seed(seed)).
LEVIN_API std::vector<std::int64_t> random_permutation(std::int64_t size, std::int64_t seed);

}  // namespace levin
