#pragma once

#include <torch/torch.h>

#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/core/strategy.h"
#include "levin/strategies/world/join_ranks.h"

// docs/extend/write-a-strategy.md shows the code below.

/// Replaces gradients by their mean over ranks one by one, after backward: the simplest way.
class MeanGradients : public levin::Strategy {
 public:
  std::string name() const override { return "mean_gradients"; }

  void setup_module(levin::Module& module, bool) override {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : module.parameters()) parameter.copy_(broadcast(parameter));
    for (torch::Tensor& buffer : module.buffers()) buffer.copy_(broadcast(buffer));
  }

  void after_backward(levin::Module& module) override {
    for (torch::Tensor& parameter : module.parameters()) {
      if (parameter.requires_grad()) parameter.mutable_grad() = all_reduce(parameter.grad());
    }
  }

 protected:
  levin::Launched join(const levin::LaunchRequest& request) override { return levin::join_ranks(request); }
};

LEVIN_REGISTER_STRATEGY(MeanGradients, "Averages gradients after each backward pass");
