#pragma once

#include <cstdint>
#include <vector>

namespace levin {

/// Tells memory that grows steadily, epoch after epoch, from what is allocated once, and from what comes and goes.
class MemoryGrowth {
 public:
  /// `least`: bytes an epoch that count as growth.
  explicit MemoryGrowth(std::int64_t least) : least_(least) {}

  /// After an epoch: bytes in use.
  void add(std::int64_t in_use);
  /// In how many epochs, up to the last, it grew, by no less than a quarter of what it grew by in any of them.
  std::int64_t epochs() const { return static_cast<std::int64_t>(growth_.size()); }
  /// In all of these, bytes.
  std::int64_t bytes() const;
  std::int64_t in_use() const { return last_; }

 private:
  std::int64_t least_;
  std::int64_t last_ = -1;  ///< -1: no epoch yet
  std::vector<std::int64_t> growth_;
};

}  // namespace levin
