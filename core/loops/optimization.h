#pragma once

#include <cstdint>

#include "levin/core/loops/step_votes.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/run/precision.h"

namespace levin {

/// What a batch's loss is divided by under automatic optimization, before its own weight: samples of a full batch times batches
/// a step.
std::int64_t window_scale(const LoopState& state);

/// Backward with its hooks, and with the reduction over ranks when `synchronize` is set. Both kinds of optimization use it.
void run_backward(Trainer::Runtime& runtime, StepVotes& votes, const at::Tensor& loss, bool synchronize);

/// One training batch under automatic optimization: training_step, zero_grad, backward, clipping, optimizer step, in the
/// reference's order. Gradients of `accumulate_grad_batches` batches make one step; at the end of an epoch, or where ranks have
/// fewer samples or none, the mean is taken over the samples that there really were.
class AutomaticOptimization {
 public:
  AutomaticOptimization(Trainer::Runtime& runtime, StepVotes& votes, const Precision& precision)
      : runtime_(runtime), votes_(votes), precision_(precision), hooks_(runtime) {}

  /// `batch` null: this rank has none, and takes part in the reduction without. `first_of_window`: gradients start at zero.
  /// `take_step`: gradients are reduced and the optimizer steps. Gives the step's output, its loss detached and divided by
  /// accumulate_grad_batches.
  StepOutput run(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool take_step);

 private:
  at::Tensor forward_backward(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool synchronize);
  /// What a full batch counts, and what this one does: samples, or 1 where sizes do not matter or are not known.
  std::int64_t full_weight() const;
  std::int64_t weight_of(const Batch& batch) const;
  void prepare_step(torch::optim::Optimizer& optimizer);

  Trainer::Runtime& runtime_;
  StepVotes& votes_;
  const Precision& precision_;
  HookRunner hooks_;
  StepOutput output_;
};

}  // namespace levin
