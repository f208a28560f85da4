#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>

#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/strategies/gradients/gradient_reducer.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

/// A layer of the module takes its statistics over all ranks: each of them needs a batch.
bool has_synchronized_layers(const torch::nn::Module& module);

/// True when such a layer has met other ranks in a forward pass since the last call.
bool took_synchronized_forward();

/// Keeps one module equal on all ranks: its parameters and buffers when it is made, then its gradients, and its buffers when
/// asked. Ranks: all, for every method, in the same order.
class ModuleSynchronizer {
 public:
  /// Makes parameters and buffers rank 0's. `training`: gradients will be reduced. `power_sgd`: as in GradientReducer::Context.
  /// Throws a DesyncError on every rank that names the first difference when the ranks' modules differ.
  ModuleSynchronizer(ProcessWorld& world, torch::nn::Module& module, bool training, const DdpOptions& options,
                     PowerSgd* power_sgd = nullptr);

  /// See Strategy::observe_waits(). `observer`: may be null.
  void observe_waits(const WaitObserver& observer) { wait_observer_ = observer; }
  /// See Strategy::parameters_changed(). Throws DesyncError on every rank, naming the first difference, when ranks have changed
  /// differently.
  void parameters_changed(bool after_reduction);
  /// Before a backward pass whose gradients are to be reduced.
  void before_backward(const at::Tensor& loss);
  /// After it. Throws MisuseError, on this rank alone, when the reduction cannot have ended.
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
  /// `not_agreed`: parameters that it leaves out until parameters_changed().
  void make_reducer(const std::vector<at::Tensor>& not_agreed = {});
  /// The same while parameters have gradients, which they keep.
  void make_reducer_beside_gradients(const std::vector<at::Tensor>& not_agreed = {});
  /// After the first reduction of a static graph: agrees on the parameters that it leaves out, and reduces the others from then
  /// on. Throws DesyncError on every rank when they differ.
  void learn_unused(bool has_batch);
  void broadcast(const std::vector<at::Tensor>& tensors);
  /// The gradients that travel in no bucket: those of non_bucketed_ and, once, those of frozen_.
  void reduce_non_bucketed();
  /// Parameters that took part with zeros, because they are no longer trained, have a gradient only if some rank had one
  /// before.
  void drop_zeros();

  ProcessWorld& world_;
  torch::nn::Module& module_;
  DdpOptions options_;
  GradientReducer::Context context_;          ///< which says, too, whether a static graph is learnt, until a step is reduced
  std::vector<at::Tensor> known_;             ///< parameters and buffers that are equal on all ranks
  std::vector<at::Tensor> left_out_;          ///< which a static graph does not use
  std::vector<at::Tensor> non_bucketed_;      ///< whose gradients no bucket can hold
  std::vector<at::Tensor> frozen_;            ///< which the reducer does not know, until the first reduction
  std::unique_ptr<GradientReducer> reducer_;  ///< null: nothing to train
  WaitObserver wait_observer_;
  std::optional<double> arrived_;  ///< if the observer is called for whole passes: when this one had its last gradient
};

}  // namespace levin
