#include "levin/data/stream.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "levin/core/base/error.h"
#include "levin/core/random/seed.h"
#include "levin/data/distributed_sampler.h"

namespace levin {

Random::Random(std::uint64_t seed) : at::Generator(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

Random::result_type Random::operator()() {
  const std::lock_guard lock(mutex());
  return get<at::CPUGeneratorImpl>()->random64();
}

Stream::Stream(Function next, const StreamOptions& options) : next_(std::move(next)), options_(options) {
  if (!next_) throw MisuseError("stream(): the function is empty");
  shard_.default_seed = static_cast<std::int64_t>(global_seed().value_or(0));  // outside of a Trainer, which says it itself
}

void Stream::start_epoch(std::int64_t epoch) {
  const auto seed = static_cast<std::uint64_t>(options_.seed.value_or(shard_.default_seed));
  // Overfitting sees the same few batches in each epoch.
  random_.emplace(sample_seed(seed, shard_.force_sequential ? 0 : epoch, shard_.rank));
}

std::optional<Batch> Stream::next() {
  if (!random_) return std::nullopt;
  std::optional<Batch> batch = next_(*random_);
  if (!batch) random_.reset();
  return batch;
}

}  // namespace levin
