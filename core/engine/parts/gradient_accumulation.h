#pragma once

#include <cstdint>
#include <vector>

namespace levin {

struct Votes;

/// Gradients that wait for more batches before the optimizer steps.
struct GradientWindow {
  bool open = false;         ///< at least one batch is in, and the step is to come
  std::int64_t weight = 0;   ///< of this rank's batches in it
  bool in_backward = false;  ///< the batch in work may have changed the gradients already
  int evaluations = 0;       ///< of the closure, by the optimizer that steps
};

/// How many batches make one optimizer step, and what each of them counts in it. The reduction over ranks gives the sum of
/// gradients divided by the number of ranks, and each loss is divided by scale(): that is the mean over a full window of full
/// batches on every rank. correction() makes good what is missing of that.
struct GradientAccumulation {
  std::int64_t batches = 1;          ///< accumulate_grad_batches, as of now
  std::int64_t full_batch_size = 0;  ///< samples of a full batch on every rank; 0 when ranks do not agree on one
  GradientWindow window = {};

  /// What a batch's loss is divided by in all: samples of a full batch times batches a step.
  std::int64_t scale() const;
  /// What a full batch counts: its samples, or 1 where sizes do not matter or are not known.
  std::int64_t full_weight(int world_size) const;
  /// What a batch of so many samples counts.
  std::int64_t weight_of(std::int64_t samples, int world_size) const;
  /// What gradients that were made of `weight`, over all ranks, are multiplied by for the mean over what there was. `weight` is
  /// not 0.
  double correction(std::int64_t weight, int world_size) const;
};

/// Throws DesyncError, which names ranks and numbers, when ranks make a step of different numbers of batches.
void check_same_accumulation(const std::vector<Votes>& by_rank);

}  // namespace levin
