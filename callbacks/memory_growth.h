#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace levin {

/// Detects memory that grows steadily, epoch after epoch, and not what is allocated once or is freed again.
class MemoryGrowth {
 public:
  /// `least`: bytes an epoch that count as growth.
  explicit MemoryGrowth(std::int64_t least) : least_(least) {}

  /// After an epoch: bytes in use.
  void add(std::int64_t in_use) {
    const std::int64_t before = std::exchange(last_, in_use);
    if (before < 0) return;
    const std::int64_t grown = in_use - before;
    // What is far less than before, or far more, is growth of another kind.
    const auto differs = [grown](std::int64_t earlier) { return grown < earlier / 4 || earlier < grown / 4; };
    if (grown < least_ || std::any_of(growth_.begin(), growth_.end(), differs)) growth_.clear();
    if (grown >= least_) growth_.push_back(grown);
  }
  /// The number of epochs, up to the last, in which it grew, in each by at least a quarter of the largest growth.
  std::int64_t epochs() const { return static_cast<std::int64_t>(growth_.size()); }
  /// In all of these, bytes.
  std::int64_t bytes() const { return std::accumulate(growth_.begin(), growth_.end(), std::int64_t{0}); }
  std::int64_t in_use() const { return last_; }

 private:
  std::int64_t least_;
  std::int64_t last_ = -1;  ///< -1: no epoch yet
  std::vector<std::int64_t> growth_;
};

}  // namespace levin
