#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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
void check_indices(std::span<const std::int64_t> indices, std::int64_t size, std::string_view who);

/// Which samples of an epoch's order a rank reads: those at rank, rank + world_size, rank + 2 * world_size, … , as torch's
/// DistributedSampler does. A step's samples over all ranks are therefore one run of the global order, however many ranks there
/// are, as long as batch_size * world_size stays the same.
class DistributedSampler {
 public:
  /// `samples`: length of the global order; `first`: where in it the ranks begin. Throws MisuseError when rank and world size
  /// do not fit, or there is no such place.
  DistributedSampler(std::int64_t samples, const Shard& shard, std::int64_t first = 0);

  /// Samples this rank reads, from the first on. kPad: samples / world_size rounded up; kDrop: rounded down; kKeep: what there
  /// is.
  std::int64_t size() const { return size_; }
  /// How many of size(), the last ones, repeat the samples at the start of the order.
  std::int64_t padding() const;
  /// Batches this rank reads in an epoch. With `drop_last` an incomplete batch is left out: on all ranks or on none.
  std::int64_t batches(std::int64_t batch_size, bool drop_last) const;
  /// This rank's part of the global order. Padding repeats the order from its start, as often as needed.
  std::vector<std::int64_t> select(std::span<const std::int64_t> order) const;

 private:
  /// Samples left for this rank, without padding.
  std::int64_t own() const;

  std::int64_t samples_;
  std::int64_t first_;
  std::int64_t rank_;
  std::int64_t world_size_;
  Uneven uneven_;
  std::int64_t size_ = 0;
};

}  // namespace levin
