#pragma once

#include <torch/nn/module.h>

#include <vector>

namespace levin::test {

/// Copies of a module's parameters, in their order, as they are now.
inline std::vector<at::Tensor> copied_weights(const torch::nn::Module& module) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : module.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

}  // namespace levin::test
