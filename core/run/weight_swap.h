#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/run/run_setup.h"

namespace levin {

/// Brings the weights to evaluate (EvaluatedWeights) into the module, and those that are trained back.
class WeightSwap {
 public:
  explicit WeightSwap(const RunParts& parts) : parts_(parts) {}

  /// Throws ConfigError when several callbacks, or one and an optimizer, each have weights to evaluate.
  void check() const;
  /// The weights to evaluate, if any. They do not change when the module's buffers do.
  void evaluate();
  /// Those that are trained, to the bit.
  void train();
  /// The module has those to evaluate.
  bool is_evaluating() const { return !trained_.empty(); }
  /// What the module has now is its own.
  void forget() { trained_.clear(); }
  /// Calls on_training_done() of all that have weights to evaluate.
  void end_training(Trainer& trainer) const;
  /// Gives a checkpoint, which has what the module has, both kinds of weights; `evaluated_only`: those to evaluate.
  void add_to(Checkpoint& checkpoint, bool evaluated_only) const;

 private:
  std::vector<EvaluatedWeights*> sources() const;
  std::vector<WeightPair> pairs() const;

  const RunParts& parts_;
  std::vector<std::pair<at::Tensor, at::Tensor>> trained_;  ///< the module's tensors, and what they had before
};

}  // namespace levin
