#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

#include "levin/core/state/trainer_state.h"

namespace levin {

/// What hooks change of optimizers and schedulers, as it was where a place began: a run that goes on from there has these hooks
/// again. What steps change is not part of it.
struct OptimizersAtStart {
  explicit OptimizersAtStart(const RunParts& parts);

  /// Optimizers have these groups, with their options, while it lives; null: those that they have.
  class Scope {
   public:
    Scope(const RunParts& parts, const OptimizersAtStart* then);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const RunParts& parts_;
    std::vector<std::vector<torch::optim::OptimizerParamGroup>> now_;
  };

  std::vector<std::vector<torch::optim::OptimizerParamGroup>> groups;  ///< by optimizer
  Value schedulers;                                                    ///< their states
};

}  // namespace levin
