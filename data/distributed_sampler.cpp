#include "levin/data/distributed_sampler.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

void check_indices(std::span<const std::int64_t> indices, std::int64_t size, std::string_view who) {
  const auto wrong = std::find_if(indices.begin(), indices.end(), [size](std::int64_t i) { return i < 0 || i >= size; });
  if (wrong == indices.end()) return;
  throw MisuseError(format("{}: index {} is not in a dataset of {} samples", who, *wrong, size));
}

namespace {
std::int64_t divide_up(std::int64_t number, std::int64_t divisor) { return number / divisor + (number % divisor != 0 ? 1 : 0); }
}  // namespace

DistributedSampler::DistributedSampler(std::int64_t samples, const Shard& shard, std::int64_t first)
    : samples_(samples), first_(first), rank_(shard.rank), world_size_(shard.world_size), uneven_(shard.uneven) {
  if (world_size_ < 1 || rank_ < 0 || rank_ >= world_size_) {
    throw MisuseError(format("data cannot be divided: rank {} of {} ranks", rank_, world_size_));
  }
  if (first_ < 0 || first_ > samples_) {
    throw MisuseError(format("an epoch of {} samples has no place {}", samples_, first_));
  }
  const std::int64_t left = samples_ - first_;
  switch (uneven_) {
    case Uneven::kPad:
      size_ = divide_up(left, world_size_);
      break;
    case Uneven::kDrop:
      size_ = left / world_size_;
      break;
    case Uneven::kKeep:
      size_ = own();
      break;
  }
}

std::int64_t DistributedSampler::own() const {
  const std::int64_t left = samples_ - first_;
  return left > rank_ ? divide_up(left - rank_, world_size_) : 0;
}

std::int64_t DistributedSampler::padding() const { return std::max<std::int64_t>(0, size_ - own()); }

std::int64_t DistributedSampler::batches(std::int64_t batch_size, bool drop_last) const {
  if (!drop_last) return divide_up(size_, batch_size);
  // With kKeep the last ranks may be a sample short: a batch that is complete on the first ranks only counts for none.
  const std::int64_t shared = uneven_ == Uneven::kKeep ? (samples_ - first_) / world_size_ : size_;
  return shared / batch_size;
}

std::vector<std::int64_t> DistributedSampler::select(std::span<const std::int64_t> order) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size_));
  for (std::int64_t i = 0; i < size_; ++i) {
    indices[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>((first_ + rank_ + i * world_size_) % samples_)];
  }
  return indices;
}

}  // namespace levin
