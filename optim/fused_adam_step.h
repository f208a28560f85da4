#pragma once

#include <ATen/ops/zeros_like.h>

#include <memory>
#include <tuple>

#include "levin/optim/fused_step.h"

namespace levin {

/// Adam and AdamW differ in the kernel only. `Kernel` calls at::_fused_adam_ or at::_fused_adamw_.
template <class AdamOptions, class AdamState, auto Kernel>
class FusedAdamStep final : public FusedStep {
 private:
  bool add(torch::optim::Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    const bool amsgrad = static_cast<const AdamOptions&>(options).amsgrad();
    AdamState* state = state_of<AdamState>(optimizer, parameter);
    if (state == nullptr) {
      if (!fits(parameter, {})) return false;
      state = begin(optimizer, parameter, amsgrad);
    } else if (!(amsgrad ? fits(parameter, {&state->exp_avg(), &state->exp_avg_sq(), &state->max_exp_avg_sq()})
                         : fits(parameter, {&state->exp_avg(), &state->exp_avg_sq()}))) {
      return false;
    }
    state->step(state->step() + 1);
    FusedBatch& batch = take(parameter);
    batch.state[0].push_back(state->exp_avg());
    batch.state[1].push_back(state->exp_avg_sq());
    if (amsgrad) batch.state[2].push_back(state->max_exp_avg_sq());
    batch.steps.push_back(step_tensor(state->step(), parameter.device()));
    return true;
  }

  void step(const Options& options, FusedBatch& batch) override {
    const auto& adam = static_cast<const AdamOptions&>(options);
    const auto [beta1, beta2] = adam.betas();
    Kernel(batch.parameters, batch.gradients, batch.state[0], batch.state[1], batch.state[2], batch.steps, adam.lr(), beta1,
           beta2, adam.weight_decay(), adam.eps(), adam.amsgrad(), /*maximize=*/false);
  }

  static AdamState* begin(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, bool amsgrad) {
    auto made = std::make_unique<AdamState>();
    made->step(0);
    made->exp_avg(at::zeros_like(parameter));
    made->exp_avg_sq(at::zeros_like(parameter));
    if (amsgrad) made->max_exp_avg_sq(at::zeros_like(parameter));
    AdamState* const state = made.get();
    optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(made);
    return state;
  }
};

}  // namespace levin
