#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace levin {

/// A set of keys, by their hashes, that the processes of a host share; lies in shared memory, zero at first. When it is full
/// every key counts as new: for warnings, one too many is better than one too few.
class SharedKeySet {
 public:
  /// True for the first process that inserts this hash. Never waits.
  bool insert(std::uint64_t hash) noexcept {
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
