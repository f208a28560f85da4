#include "levin/core/loops/gradients.h"

#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/optimizer.h>

#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

void scale_gradients(torch::optim::Optimizer& optimizer, double factor) {
  const torch::NoGradGuard no_grad;
  for (auto& group : optimizer.param_groups()) {
    for (auto& parameter : group.params()) {
      if (parameter.grad().defined()) parameter.mutable_grad().mul_(factor);
    }
  }
}

void clip_gradients(torch::optim::Optimizer& optimizer, double value, GradientClipAlgorithm algorithm) {
  if (algorithm == GradientClipAlgorithm::kNorm) {
    torch::nn::utils::clip_grad_norm_(all_parameters(optimizer), value);
  } else {
    torch::nn::utils::clip_grad_value_(all_parameters(optimizer), value);
  }
}

}  // namespace levin
