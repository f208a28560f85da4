#include "levin/data/dataset.h"

#include <ATen/CPUGeneratorImpl.h>

#include "levin/core/random/seed.h"
#include "levin/data/scramble.h"

namespace levin {
namespace {

struct ReadingEpoch {
  bool set = false;
  std::int64_t seed = 0;
  std::int64_t epoch = 0;
};
thread_local ReadingEpoch reading;

}  // namespace

at::Generator sample_generator(std::int64_t index) {
  const std::uint64_t seed = reading.set ? static_cast<std::uint64_t>(reading.seed) : global_seed().value_or(0);
  const std::uint64_t of_epoch = scramble(scramble(seed) + static_cast<std::uint64_t>(reading.epoch));
  return at::make_generator<at::CPUGeneratorImpl>(scramble(of_epoch + static_cast<std::uint64_t>(index)));
}

SampleSeedScope::SampleSeedScope(std::int64_t seed, std::int64_t epoch)
    : outer_set_(reading.set), outer_seed_(reading.seed), outer_epoch_(reading.epoch) {
  reading = {.set = true, .seed = seed, .epoch = epoch};
}

SampleSeedScope::~SampleSeedScope() { reading = {.set = outer_set_, .seed = outer_seed_, .epoch = outer_epoch_}; }

}  // namespace levin
