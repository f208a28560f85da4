#include "levin/core/loops/gradients.h"

#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/optimizer.h>

namespace levin {

namespace {
std::vector<at::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return parameters;
}
}  // namespace

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
    torch::nn::utils::clip_grad_norm_(parameters_of(optimizer), value);
  } else {
    torch::nn::utils::clip_grad_value_(parameters_of(optimizer), value);
  }
}

}  // namespace levin
