#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "levin/core/run/run_setup.h"

namespace levin {

/// "a, b, c": the first ten of these names, and the number of others.
std::string some_of(std::vector<std::string> names);

/// Warns on rank 0, once each, of parameters that are not trained: a module without trainable ones, parameters in no optimizer,
/// an optimizer without the module's parameters, and one with parameters unknown to the module.
void warn_of_idle_parameters(const RunParts& parts);

/// Warns on rank 0 of layers in evaluation mode in a module that trains. Frozen layers, and those in them, are excluded.
void warn_of_layers_in_evaluation_mode(const torch::nn::Module& module);

/// Finds layers that were never registered: tensors of the loss that require a gradient, and are unknown to the module and the
/// optimizers. They are not trained, saved or made equal on all ranks, without any other sign.
class UnregisteredLeaves {
 public:
  explicit UnregisteredLeaves(const RunParts& parts) : parts_(parts) {}

  /// A fit begins.
  void reset() {
    passes_ = 0;
    suspects_.clear();
  }
  /// Called: before each backward pass. Traverses the graphs of a fit's first two; a leaf of both is not an input of a step.
  /// Warns once.
  void check_loss(const at::Tensor& loss);
  /// True after a backward pass in this fit.
  bool saw_loss() const { return passes_ > 0; }

 private:
  std::vector<at::Tensor> strangers_in(const at::Tensor& loss) const;

  const RunParts& parts_;
  int passes_ = 0;
  std::vector<at::Tensor> suspects_;  ///< of the first pass
};

}  // namespace levin
