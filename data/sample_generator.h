#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

#include "levin/core/export.h"

namespace levin {

/// Random numbers for one sample in the epoch that is being read: what a dataset draws from for augmentation.
///
///     Batch get_sample(std::int64_t index) const override {
///       at::Generator random = levin::sample_generator(index);
///       const bool flip = at::rand({}, random).item<float>() < 0.5;
///
/// They are a function of (seed, epoch, index) and of nothing else, so that a sample is augmented alike by any number of
/// workers and ranks, and by a run that resumes, and anew in each epoch. LibTorch's own generator, from which at::rand draws
/// without one, is shared by all threads: with workers nobody can say which sample gets which of its numbers. `index` is what
/// get_batch() or get_sample() was given. Each call gives a generator that begins anew: draw all that a sample needs from one.
/// Threading: called by the thread that called get_batch(). Outside of a loader the seed is that of seed_everything(), and the
/// epoch 0.
LEVIN_API at::Generator sample_generator(std::int64_t index);

/// While it lives, sample_generator() draws on this thread for this seed and epoch. DataLoader has one around get_batch(); a
/// loader of your own may do the same.
class LEVIN_API SampleSeedScope {
 public:
  SampleSeedScope(std::int64_t seed, std::int64_t epoch);
  ~SampleSeedScope();
  SampleSeedScope(const SampleSeedScope&) = delete;
  SampleSeedScope& operator=(const SampleSeedScope&) = delete;

 private:
  bool outer_set_;
  std::int64_t outer_seed_;
  std::int64_t outer_epoch_;
};

}  // namespace levin
