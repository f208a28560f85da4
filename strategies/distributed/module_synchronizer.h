#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "levin/strategies/distributed/gradient_reducer.h"
#include "levin/strategies/distributed/process_world.h"

namespace levin {

/// Keeps one module equal on all ranks: its parameters and buffers when it is made, then its gradients, and its buffers when
/// asked. Ranks: all, for every method, in the same order.
class ModuleSynchronizer {
 public:
  /// Makes parameters and buffers rank 0's. `training`: gradients will be reduced. Throws DesyncError on every rank, naming the
  /// first difference, when the ranks' modules are not alike.
  ModuleSynchronizer(ProcessWorld& world, torch::nn::Module& module, bool training, const GradientReducer::Options& options);
  ~ModuleSynchronizer();

  /// Before a backward pass whose gradients are to be reduced.
  void before_backward(const at::Tensor& loss);
  /// After it. Throws MisuseError, on this rank alone, when the reduction cannot have ended.
  void check_reduced() const;
  /// Takes part in the reduction of a step with gradients of zero.
  void backward_without_batch();
  /// Buffers become rank 0's.
  void synchronize_buffers();

 private:
  void broadcast(const std::vector<at::Tensor>& tensors);

  ProcessWorld& world_;
  torch::nn::Module& module_;
  std::unique_ptr<GradientReducer> reducer_;  ///< null: nothing to train
};

}  // namespace levin
