#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace levin {

/// A loss whose backward pass gives parameters the gradients that were computed with it, times the gradient of the loss itself.
/// Parameters that require none are left out. Without gradients (NoGradGuard) it is `loss`.
at::Tensor with_gradients(const at::Tensor& loss, const std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients);

}  // namespace levin
