#pragma once

#include <cstdint>

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

}  // namespace levin
