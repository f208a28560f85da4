#pragma once

#include <string>

namespace torch::optim {
class Optimizer;
}

namespace levin {

/// Drops the gradients of an optimizer's parameters (PyTorch's zero_grad(set_to_none=True)). Unlike Optimizer::zero_grad it
/// works when gradients are views of a reduction bucket.
void release_gradients(torch::optim::Optimizer& optimizer);

/// Multiplies every gradient of an optimizer's parameters.
void scale_gradients(torch::optim::Optimizer& optimizer, double factor);

/// Clips the gradients of an optimizer's parameters: "norm" to a total 2-norm of `value`, "value" to [-value, value].
/// Throws MisuseError on another algorithm.
void clip_gradients(torch::optim::Optimizer& optimizer, double value, const std::string& algorithm);

}  // namespace levin
