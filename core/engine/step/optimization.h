#pragma once

#include <cstdint>
#include <utility>

#include "levin/core/engine/diagnostics/nan_guard.h"
#include "levin/core/engine/parts/gradient_accumulation.h"
#include "levin/core/engine/parts/hook_runner.h"
#include "levin/core/engine/parts/progress.h"
#include "levin/core/engine/step/gradient_scaler.h"
#include "levin/core/engine/step/precision.h"
#include "levin/core/engine/step/step_graph.h"
#include "levin/core/engine/step/step_votes.h"
#include "levin/core/engine/step/unregistered_leaves.h"
#include "levin/core/strategy.h"

namespace levin {

/// Backward with its hooks, and with the reduction over ranks when `synchronize` is set. Both kinds of optimization use it.
void run_backward(HookRunner& hooks, Strategy& strategy, Module& module, StepVotes& votes, NanGuard& nan,
                  UnregisteredLeaves& leaves, const at::Tensor& loss, bool synchronize);

/// Before an optimizer steps, when its gradients are complete.
void begin_step(Strategy& strategy, torch::optim::Optimizer& optimizer);

/// One training batch under automatic optimization: training_step, zero_grad, backward, clipping, optimizer step, in
/// Lightning's order. Gradients of `accumulate_grad_batches` batches make one step; at the end of an epoch, or where ranks have
/// fewer samples or none, the mean is taken over the samples that there really were.
class AutomaticOptimization {
 public:
  AutomaticOptimization(Strategy& strategy, const RunParts& parts, Progress& progress, GradientAccumulation& accumulation,
                        StepVotes& votes, const Precision& precision, HookRunner& hooks, NanGuard& nan, GradientScaler& scaler,
                        UnregisteredLeaves& leaves, StepGraph& graph)
      : strategy_(strategy),
        parts_(parts),
        progress_(progress),
        accumulation_(accumulation),
        votes_(votes),
        precision_(precision),
        hooks_(hooks),
        nan_(nan),
        scaler_(scaler),
        leaves_(leaves),
        graph_(graph) {}

  /// `batch` null: this rank has none, and takes part in the reduction without. `first_of_window`: gradients start at zero.
  /// `take_step`: gradients are reduced and the optimizer steps. Gives the step's output, its loss detached and divided by
  /// accumulate_grad_batches.
  StepOutput run(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool take_step);

  /// Optimizer steps, and those of them for which some rank gave a loss.
  struct Steps {
    std::int64_t taken = 0;
    std::int64_t with_loss = 0;
  };
  /// Those since the last call. The same on all ranks.
  Steps count_steps() { return std::exchange(steps_, {}); }

 private:
  at::Tensor forward_backward(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool synchronize);
  void prepare_step(torch::optim::Optimizer& optimizer);
  /// The mean over ranks, where an optimizer decides by the loss how it goes on, as LBFGS does: else ranks would part.
  at::Tensor loss_for(const torch::optim::Optimizer& optimizer, const at::Tensor& loss);

  Strategy& strategy_;
  const RunParts& parts_;
  Progress& progress_;
  GradientAccumulation& accumulation_;
  StepVotes& votes_;
  const Precision& precision_;
  HookRunner& hooks_;
  NanGuard& nan_;
  GradientScaler& scaler_;
  UnregisteredLeaves& leaves_;
  StepGraph& graph_;
  StepOutput output_;
  Steps steps_;
};

}  // namespace levin
