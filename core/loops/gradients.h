#pragma once

#include <string>

namespace torch::optim {
class Optimizer;
}

namespace levin {

/// Multiplies every gradient of an optimizer's parameters.
void scale_gradients(torch::optim::Optimizer& optimizer, double factor);

/// Clips the gradients of an optimizer's parameters: "norm" to a total 2-norm of `value`, "value" to [-value, value].
/// Throws MisuseError on another algorithm.
void clip_gradients(torch::optim::Optimizer& optimizer, double value, const std::string& algorithm);

}  // namespace levin
