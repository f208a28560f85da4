#pragma once

#include <cstdint>
#include <vector>

namespace levin::detail {

/// What becomes of two neighbours.
struct Merge {
  std::uint32_t rank = 0;  ///< merges of lower rank come first
  std::uint32_t token = 0;
};

/// Merges by their pair of tokens: a hash table with open addresses, since most of the time of an encoder goes into it.
class MergeTable {
 public:
  explicit MergeTable(std::size_t size) {
    std::size_t places = 16;
    while (places < size * 2) places *= 2;
    entries_.resize(places);
  }

  /// A pair that is there already gets the new merge.
  void add(std::uint32_t left, std::uint32_t right, Merge merge) {
    Entry& entry = entries_[place_of(left, right)];
    entry = {key_of(left, right), merge};
  }

  /// Null where the pair is not merged.
  const Merge* find(std::uint32_t left, std::uint32_t right) const {
    const Entry& entry = entries_[place_of(left, right)];
    return entry.key == kNone ? nullptr : &entry.merge;
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // tokens have 31 bits
  struct Entry {
    std::uint64_t key = kNone;
    Merge merge;
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32U | right; }

  std::size_t place_of(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = key_of(left, right);
    std::uint64_t hash = key * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
    std::size_t place = hash & (entries_.size() - 1);
    while (entries_[place].key != key && entries_[place].key != kNone) place = (place + 1) & (entries_.size() - 1);
    return place;
  }

  std::vector<Entry> entries_;
};

}  // namespace levin::detail
