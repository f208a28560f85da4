#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/optim/optimizers.h"

namespace levin {

struct LEVIN_API ScheduleFreeState {
  std::int64_t k = 0;  ///< steps
  double weight_sum = 0.0;
  double lr_max = 0.0;
  at::Tensor z = {};
  at::Tensor x = {};
  at::Tensor exp_avg_sq = {};  ///< of AdamW
};

/// An optimizer that needs no schedule (Defazio et al. 2024), as the package schedulefree has it: weights z take steps, x is
/// their average, and gradients are taken at y between the two. Parameters are y while they are trained, and x is what is
/// evaluated (EvaluatedWeights). Each parameter counts the steps that it takes, in which it has a gradient.
template <class Options>
class LEVIN_API ScheduleFree : public OptimizerOf<Options, ScheduleFreeState>, public EvaluatedWeights {
 public:
  using OptimizerOf<Options, ScheduleFreeState>::OptimizerOf;
  std::vector<WeightPair> evaluated_weights() const override {
    std::vector<WeightPair> weights;
    for (const auto& group : this->param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        if (const auto* state = this->state_of(parameter)) weights.push_back({parameter, state->x});
      }
    }
    return weights;
  }
};

struct LEVIN_API SGDScheduleFreeOptions {
  double lr = 1.0;
  double momentum = 0.9;  ///< how near to x gradients are taken
  double weight_decay = 0.0;
  std::int64_t warmup_steps = 0;
  double r = 0.0;
  double weight_lr_power = 2.0;
  static void declare(OptionList<SGDScheduleFreeOptions>& options);
};

/// Schedule-free stochastic gradient descent.
class LEVIN_API SGDScheduleFree final : public ScheduleFree<SGDScheduleFreeOptions> {
  using ScheduleFree::ScheduleFree;
  State first_state(const at::Tensor& parameter, const Options& options) const override;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API AdamWScheduleFreeOptions {
  double lr = 2.5e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0.0;
  std::int64_t warmup_steps = 0;
  double r = 0.0;
  double weight_lr_power = 2.0;
  static void declare(OptionList<AdamWScheduleFreeOptions>& options);
};

/// Schedule-free AdamW.
class LEVIN_API AdamWScheduleFree final : public ScheduleFree<AdamWScheduleFreeOptions> {
  using ScheduleFree::ScheduleFree;
  State first_state(const at::Tensor& parameter, const Options& options) const override;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

}  // namespace levin
