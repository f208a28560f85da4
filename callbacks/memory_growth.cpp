#include "levin/callbacks/memory_growth.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace levin {

void MemoryGrowth::add(std::int64_t in_use) {
  const std::int64_t before = std::exchange(last_, in_use);
  if (before < 0) return;
  const std::int64_t grown = in_use - before;
  // What is far less than before, or far more, is growth of another kind.
  const auto differs = [grown](std::int64_t earlier) { return grown < earlier / 4 || earlier < grown / 4; };
  if (grown < least_ || std::any_of(growth_.begin(), growth_.end(), differs)) growth_.clear();
  if (grown >= least_) growth_.push_back(grown);
}

std::int64_t MemoryGrowth::bytes() const { return std::accumulate(growth_.begin(), growth_.end(), std::int64_t{0}); }

}  // namespace levin
