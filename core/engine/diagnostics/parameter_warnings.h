#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "levin/core/engine/parts/run_setup.h"

namespace levin {

/// Warns on rank 0, once each, of parameters that training leaves as they are without a word: a module without any that
/// requires a gradient, those that require one and are in no optimizer, an optimizer of none of the module's parameters, and
/// one that has parameters of which the module knows nothing.
void warn_of_idle_parameters(const RunParts& parts);

/// Finds layers that were never registered: tensors that the loss depends on and that require a gradient, of which neither the
/// module nor an optimizer knows. They are not trained, not saved, and not made equal on all ranks, and nothing else shows.
class UnregisteredLeaves {
 public:
  explicit UnregisteredLeaves(const RunParts& parts) : parts_(parts) {}

  /// A fit begins.
  void reset() {
    passes_ = 0;
    suspects_.clear();
  }
  /// Before each backward pass. Follows the first two of a fit through their graphs: what both depend on is no input of a
  /// step's own, such as one for a gradient penalty. Warns once.
  void look_at_loss(const at::Tensor& loss);
  /// There was a backward pass in this fit.
  bool saw_loss() const { return passes_ > 0; }

 private:
  std::vector<at::Tensor> strangers_in(const at::Tensor& loss) const;

  const RunParts& parts_;
  int passes_ = 0;
  std::vector<at::Tensor> suspects_;  ///< of the first pass
};

}  // namespace levin
