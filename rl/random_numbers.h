#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/random/seed.h"

namespace levin {

/// The seed of an option; unset: that of seed_everything(), else 0.
inline std::uint64_t chosen_seed(const std::optional<std::int64_t>& seed) {
  return seed ? static_cast<std::uint64_t>(*seed) : global_seed().value_or(0);
}

/// SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators"): its state is one number, which a
/// checkpoint stores.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
  /// In [0, bound), without bias.
  std::int64_t below(std::int64_t bound) {
    const auto range = static_cast<std::uint64_t>(bound);
    const std::uint64_t rest = (0 - range) % range;  // as many numbers as 2^64 has above a multiple of the range
    std::uint64_t number = next();
    while (number < rest) number = next();
    return static_cast<std::int64_t>(number % range);
  }
  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  std::int64_t state() const { return static_cast<std::int64_t>(state_); }
  void set_state(std::int64_t state) { state_ = static_cast<std::uint64_t>(state); }

  /// A permutation of all numbers.
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace levin
