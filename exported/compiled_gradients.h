#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace levin {

/// A loss whose backward pass gives parameters the gradients that were computed with it, times the gradient of the loss itself.
/// Parameters that require none are left out. Without gradients (NoGradGuard) it is `loss`.
at::Tensor with_gradients(const at::Tensor& loss, const std::vector<at::Tensor>& parameters, std::vector<at::Tensor> gradients);

/// loss.backward(). The engine of LibTorch takes some microseconds a parameter: where `loss` is one of with_gradients() itself,
/// and nobody has hooks on the way, its gradients go to the parameters without the engine, as it would give them.
void backward_of_compiled(const at::Tensor& loss);

}  // namespace levin
