#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>

#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/strategies/gradients/gradient_reducer.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

/// True when a layer computes its statistics over all ranks, so that each needs a batch.
bool has_synchronized_layers(const torch::nn::Module& module);

/// True when such a layer has exchanged statistics in a forward pass since the last call.
bool took_synchronized_forward();

/// Makes a module equal on all ranks: its parameters and buffers at first, then its gradients, and its buffers on request.
/// Ranks: all, for every method, in the same order.
class ModuleSynchronizer {
 public:
  /// Makes parameters and buffers rank 0's. `training`: gradients will be reduced. `power_sgd`: as in GradientReducer::Context.
  /// Throws a DesyncError on every rank that names the first difference when the ranks' modules differ.
  ModuleSynchronizer(ProcessWorld& world, torch::nn::Module& module, bool training, const DdpOptions& options,
                     PowerSgd* power_sgd = nullptr);

  /// See Strategy::observe_waits(). `observer`: may be null.
  void observe_waits(const WaitObserver& observer) { wait_observer_ = observer; }
  /// See Strategy::parameters_changed(). Throws a DesyncError on every rank that names the first difference when changes differ
  /// between ranks.
  void parameters_changed(bool after_reduction);
  /// Called: before a backward pass whose gradients are reduced.
  void before_backward(const at::Tensor& loss);
  /// Called: after it. Throws MisuseError, only on this rank, when the reduction has not ended.
  void finish_reduction();
  /// Takes part in the reduction of a step with gradients of zero.
  void backward_without_batch();
  /// Reduces the present gradients after a backward pass without a reduction.
  void reduce_after_backward();
  /// Buffers become rank 0's.
  void synchronize_buffers();

 private:
  void begin_observation();
  void end_observation();
  /// `not_agreed`: parameters that it skips until parameters_changed().
  void make_reducer(const std::vector<at::Tensor>& not_agreed = {});
  /// The same while parameters have gradients, which stay.
  void make_reducer_beside_gradients(const std::vector<at::Tensor>& not_agreed = {});
  /// After the first reduction of a static graph: agrees on the unused parameters, and reduces the others from then on. Throws
  /// DesyncError on every rank when they differ.
  void learn_unused(bool has_batch);
  void broadcast(const std::vector<at::Tensor>& tensors);
  /// Reduces gradients outside of buckets: those of non_bucketed_ and, once, those of frozen_.
  void reduce_non_bucketed();
  /// Parameters that took part with zeros, because they are no longer trained, have a gradient only if some rank had one
  /// before.
  void drop_zeros();

  ProcessWorld& world_;
  torch::nn::Module& module_;
  DdpOptions options_;
  GradientReducer::Context context_;          ///< also whether a static graph is being learned
  std::vector<at::Tensor> known_;             ///< parameters and buffers that are equal on all ranks
  std::vector<at::Tensor> left_out_;          ///< which a static graph does not use
  std::vector<at::Tensor> non_bucketed_;      ///< whose gradients no bucket can hold
  std::vector<at::Tensor> frozen_;            ///< unknown to the reducer, until the first reduction
  std::unique_ptr<GradientReducer> reducer_;  ///< null: nothing to train
  WaitObserver wait_observer_;
  std::optional<double> arrived_;  ///< if the observer is called for whole passes: when this one had its last gradient
};

}  // namespace levin
