#pragma once

#include <functional>
#include <utility>

#include "levin/core/diagnostics/nan_guard.h"
#include "levin/core/diagnostics/parameter_warnings.h"
#include "levin/core/diagnostics/work_watch.h"
#include "levin/core/run/boundaries.h"
#include "levin/core/step/gathered_gradients.h"
#include "levin/core/step/gradients.h"
#include "levin/core/step/precision.h"
#include "levin/core/step/step_graph.h"
#include "levin/core/step/trained_parameters.h"

namespace levin {

/// This rank's part in the gradient reductions of training: votes are sent before each and received after it, so that an
/// agreement to stop costs no collective. They also report that a rank's parameters have changed.
class StepVotes {
 public:
  StepVotes(VoteChannel& channel, Boundaries& boundaries, TrainedParameters& parameters, NanGuard& nan)
      : channel_(channel), boundaries_(boundaries), parameters_(parameters), nan_(nan) {}

  /// Weight of this rank in the gradients since the last optimizer step, the current batch included.
  void set_gradient_weight(std::int32_t weight) { gradient_weight_ = weight; }
  std::int32_t gradient_weight() const { return gradient_weight_; }

  /// Called: before a backward pass that reduces gradients.
  void publish();
  /// Called: when gradients are reduced. All ranks get the same. If parameters of some rank have changed, all agree on them.
  void collect();
  /// Starts a training batch: nothing is collected yet.
  void begin_batch() { collected_.reset(); }
  /// True when gradients were reduced in this batch; agreed() is then known to all ranks.
  bool reduced() const { return collected_.has_value(); }
  const Votes& agreed() const { return *collected_; }

 private:
  VoteChannel& channel_;
  Boundaries& boundaries_;
  TrainedParameters& parameters_;
  NanGuard& nan_;
  std::int64_t sequence_ = 0;
  std::int32_t gradient_weight_ = 0;
  std::optional<Votes> collected_;
};

/// Computes a step's loss in place of training_step, where a Session's caller gives one.
using StepClosure = std::function<StepOutput(const Batch&)>;

/// The parts of a run that its training steps use.
struct StepContext {
  Strategy& strategy;
  const RunParts& parts;
  Progress& progress;
  HookRunner& hooks;
  GradientAccumulation& accumulation;
  NanGuard& nan;
  GradientScaler& scaler;
  UnregisteredLeaves& leaves;
  GatheredGradients& gathered;
  StepGraph& graph;
  WorkMeter& work;
  StepMeasures& measures;
  const StepClosure& closure;
};

/// Brings a batch to the module's device and format, with the three transfer hooks, and reports its size to the metrics.
Batch transfer_batch(HookRunner& hooks, MetricStore& metrics, const at::Device& device, const PrecisionPolicy& precision,
                     Batch batch, std::int64_t dataloader_idx, std::int64_t num_dataloaders);

/// Runs backward with its hooks, and with the reduction over ranks if `synchronize` is set. Both kinds of optimization use it.
void run_backward(const StepContext& step, StepVotes& votes, const at::Tensor& loss, bool synchronize);

/// Called: before an optimizer steps, when its gradients are complete.
void begin_step(Strategy& strategy, torch::optim::Optimizer& optimizer);

/// A training batch under automatic optimization: training_step, zero_grad, backward, clipping, optimizer step, in Lightning's
/// order. `accumulate_grad_batches` batches make one step; at the end of an epoch, or if ranks have fewer samples or none, the
/// mean is over the existing samples.
class AutomaticOptimization {
 public:
  AutomaticOptimization(const StepContext& step, StepVotes& votes, const PrecisionPolicy& precision)
      : step_(step), votes_(votes), precision_(precision) {}

  /// `batch` null: this rank has none, and only joins the reduction. `first_of_window`: gradients start at zero. `take_step`:
  /// they are reduced and the optimizer steps. Returns the output, its loss detached and divided by accumulate_grad_batches.
  StepOutput run(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool take_step);

  /// The number of optimizer steps, and of those for which some rank gave a loss.
  struct Steps {
    std::int64_t taken = 0;
    std::int64_t with_loss = 0;
  };
  /// The steps since the last call. The same on all ranks.
  Steps count_steps() { return std::exchange(steps_, {}); }

 private:
  at::Tensor forward_backward(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool synchronize);
  void prepare_step(torch::optim::Optimizer& optimizer);
  /// The mean over ranks, if the optimizer's next steps depend on the loss, as with LBFGS: otherwise ranks would diverge.
  at::Tensor loss_for(const torch::optim::Optimizer& optimizer, const at::Tensor& loss);

  StepContext step_;
  StepVotes& votes_;
  const PrecisionPolicy& precision_;
  StepOutput output_;
  Steps steps_;
};

}  // namespace levin
