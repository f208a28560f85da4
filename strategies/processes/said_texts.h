#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace levin {

/// Which texts the ranks of a host have said, by their hashes; lies in shared memory, zero at first. When it is full everything
/// counts as new: a warning too many is better than one too few.
class SaidTexts {
 public:
  /// True for the first process that says the text of this hash. Never waits.
  bool is_first(std::uint64_t hash) noexcept {
    if (hash == 0) hash = 1;  // 0 is an empty place
    for (std::atomic<std::uint64_t>& place : places_) {
      std::uint64_t before = 0;
      if (place.compare_exchange_strong(before, hash)) return true;
      if (before == hash) return false;
    }
    return true;
  }

 private:
  std::array<std::atomic<std::uint64_t>, 256> places_;
};

}  // namespace levin
