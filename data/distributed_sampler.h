#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/batch_loader.h"

namespace levin {

/// SplitMix64's: neighbouring numbers become unrelated ones.
inline std::uint64_t scramble(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31U);
}

/// The seed of a sample, or of what a rank draws, in an epoch.
inline std::uint64_t sample_seed(std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
  return scramble(scramble(scramble(seed) + static_cast<std::uint64_t>(epoch)) + static_cast<std::uint64_t>(index));
}

/// Throws MisuseError when an index is not in 0 … size - 1.
inline void check_indices(std::span<const std::int64_t> indices, std::int64_t size, std::string_view class_name) {
  const auto wrong = std::find_if(indices.begin(), indices.end(), [size](std::int64_t i) { return i < 0 || i >= size; });
  if (wrong != indices.end())
    throw MisuseError(format("{}: index {} is not in a dataset of {} samples", class_name, *wrong, size));
}

/// Which samples of an epoch's order a rank reads: those at rank, rank + world_size, rank + 2 * world_size, … , as torch's
/// DistributedSampler does. A step's samples over all ranks are therefore one run of the global order, however many ranks there
/// are, as long as batch_size * world_size stays the same.
class DistributedSampler {
 public:
  /// `samples`: length of the global order; `first`: where in it the ranks begin. Throws MisuseError when rank and world size
  /// do not fit, or `first` is out of range.
  DistributedSampler(std::int64_t samples, const Shard& shard, std::int64_t first = 0)
      : samples_(samples), first_(first), left_(samples - first), shard_(shard) {
    if (shard.world_size < 1 || shard.rank < 0 || shard.rank >= shard.world_size) {
      throw MisuseError(format("data cannot be divided: rank {} of {} ranks", shard.rank, shard.world_size));
    }
    if (first < 0 || first > samples) throw MisuseError(format("an epoch of {} samples has no sample {}", samples, first));
  }

  /// Samples this rank reads, from the first on. kPad: samples / world_size rounded up; kDrop: rounded down; kKeep: its
  /// share without repeats or losses.
  std::int64_t size() const {
    if (shard_.uneven == Uneven::kPad) return divide_up(left_, shard_.world_size);
    return shard_.uneven == Uneven::kDrop ? left_ / shard_.world_size : own();
  }
  /// How many of size(), the last ones, repeat the samples at the start of the order.
  std::int64_t padding() const { return std::max<std::int64_t>(0, evened_out()); }
  /// What size() has more than this rank's part of the order, or, below 0, less.
  std::int64_t evened_out() const { return size() - own(); }
  /// Batches this rank reads in an epoch. With `drop_last` an incomplete batch is left out: on all ranks or on none.
  std::int64_t batches(std::int64_t batch_size, bool drop_last) const {
    if (!drop_last) return divide_up(size(), batch_size);
    // With kKeep the last ranks may be a sample short: a batch that is complete on the first ranks only counts for none.
    return (shard_.uneven == Uneven::kKeep ? left_ / shard_.world_size : size()) / batch_size;
  }
  /// This rank's part of the global order. Padding repeats the order from its start, as often as needed.
  std::vector<std::int64_t> select(std::span<const std::int64_t> order) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(size()));
    std::int64_t place = first_ + shard_.rank;
    for (std::int64_t& index : indices) {
      index = order[static_cast<std::size_t>(place % samples_)];
      place += shard_.world_size;
    }
    return indices;
  }

 private:
  static std::int64_t divide_up(std::int64_t number, std::int64_t divisor) {
    return number / divisor + (number % divisor != 0 ? 1 : 0);
  }
  /// Samples left for this rank, without padding.
  std::int64_t own() const { return left_ > shard_.rank ? divide_up(left_ - shard_.rank, shard_.world_size) : 0; }

  std::int64_t samples_;
  std::int64_t first_;
  std::int64_t left_;
  Shard shard_;
};

}  // namespace levin
