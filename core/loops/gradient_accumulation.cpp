#include "levin/core/loops/gradient_accumulation.h"

#include <algorithm>

namespace levin {

std::int64_t GradientAccumulation::scale() const { return std::max<std::int64_t>(1, full_batch_size) * batches; }

std::int64_t GradientAccumulation::full_weight(int world_size) const {
  // One process that steps after every batch has nothing to weigh one batch against.
  const bool alone = world_size == 1 && batches == 1;
  return alone || full_batch_size == 0 ? 1 : full_batch_size;
}

std::int64_t GradientAccumulation::weight_of(std::int64_t samples, int world_size) const {
  return full_weight(world_size) == 1 ? 1 : samples;
}

double GradientAccumulation::correction(std::int64_t weight, int world_size) const {
  const std::int64_t full = full_weight(world_size) * batches * world_size;
  return weight == full ? 1.0 : static_cast<double>(full) / static_cast<double>(weight);
}

}  // namespace levin
