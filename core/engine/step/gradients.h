#pragma once

#include "levin/core/options/option_type.h"

namespace torch::optim {
class Optimizer;
}

namespace levin {

/// Multiplies every gradient of an optimizer's parameters.
void scale_gradients(torch::optim::Optimizer& optimizer, double factor);

/// Clips the gradients of an optimizer's parameters: kNorm to a total 2-norm of `value`, kValue to [-value, value].
void clip_gradients(torch::optim::Optimizer& optimizer, double value, GradientClipAlgorithm algorithm);

}  // namespace levin
