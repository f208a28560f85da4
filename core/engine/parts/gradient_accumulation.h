#pragma once

#include <algorithm>
#include <cstdint>

namespace levin {

/// Gradients that wait for more batches before the optimizer steps.
struct GradientWindow {
  bool open = false;         ///< at least one batch is in, and the step is to come
  std::int64_t weight = 0;   ///< of this rank's batches in it
  bool in_backward = false;  ///< the batch in work may have changed the gradients already
  int evaluations = 0;       ///< of the closure, by the optimizer that steps
};

/// How many batches make one optimizer step, and what each counts in it. The reduction gives the sum of gradients divided by
/// the number of ranks, and each loss is divided by scale(): the mean over a full window of full batches on every rank.
/// correction() makes good what is missing of that.
struct GradientAccumulation {
  std::int64_t batches = 1;          ///< accumulate_grad_batches, as of now
  std::int64_t full_batch_size = 0;  ///< samples of a full batch on every rank; 0 when ranks do not agree on one
  GradientWindow window = {};

  /// What a batch's loss is divided by in all: samples of a full batch times batches a step.
  std::int64_t scale() const { return std::max<std::int64_t>(1, full_batch_size) * batches; }
  /// What a full batch counts: its samples, or 1 where sizes are not known or there is nothing to weigh one batch against.
  std::int64_t full_weight(int world_size) const {
    const bool alone = world_size == 1 && batches == 1;
    return alone || full_batch_size == 0 ? 1 : full_batch_size;
  }
  /// What a batch of so many samples counts.
  std::int64_t weight_of(std::int64_t samples, int world_size) const { return full_weight(world_size) == 1 ? 1 : samples; }
  /// The factor by which gradients made of `weight`, not 0, over all ranks become the mean over what there was.
  double correction(std::int64_t weight, int world_size) const {
    const std::int64_t full = full_weight(world_size) * batches * world_size;
    return weight == full ? 1.0 : static_cast<double>(full) / static_cast<double>(weight);
  }
};

}  // namespace levin
