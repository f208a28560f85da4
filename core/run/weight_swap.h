#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/run/run_setup.h"

namespace levin {

/// Swaps the weights to evaluate (EvaluatedWeights) and the trained ones in the module.
class WeightSwap {
 public:
  explicit WeightSwap(const RunParts& parts) : parts_(parts) {}

  /// Throws ConfigError when several callbacks, or one and an optimizer, each have weights to evaluate.
  void check() const;
  /// The weights to evaluate, if any. They do not change when the module's buffers do.
  void evaluate();
  /// Restores the trained ones, to the bit.
  void train();
  /// True while the module has the weights to evaluate.
  bool is_evaluating() const { return !trained_.empty(); }
  /// Makes the module's present weights its own.
  void forget() { trained_.clear(); }
  /// Calls on_training_done() of all objects with weights to evaluate.
  void end_training(Trainer& trainer) const;
  /// Adds both kinds of weights to a checkpoint of the module; `evaluated_only`: only those to evaluate.
  void add_to(Checkpoint& checkpoint, bool evaluated_only) const;

 private:
  std::vector<EvaluatedWeights*> sources() const;
  std::vector<WeightPair> pairs() const;

  const RunParts& parts_;
  std::vector<std::pair<at::Tensor, at::Tensor>> trained_;  ///< the module's tensors, and what they had before
};

}  // namespace levin
