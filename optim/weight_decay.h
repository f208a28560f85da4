#pragma once

#include <ATen/core/Tensor.h>

namespace levin {

/// The gradient of the loss and of an L2 penalty.
inline at::Tensor with_penalty(const at::Tensor& gradient, const at::Tensor& parameter, double weight_decay) {
  return weight_decay == 0 ? gradient : gradient.add(parameter, weight_decay);
}

/// Weight decay as in AdamW: the parameter shrinks, whatever its gradient.
inline void shrink(at::Tensor& parameter, double lr, double weight_decay) {
  if (weight_decay != 0) parameter.mul_(1 - lr * weight_decay);
}

/// Weight decay as options ask for it: decoupled, or as a penalty, whose gradient is added. Returns the gradient to step by.
template <class Options>
at::Tensor decay_weights(at::Tensor& parameter, const at::Tensor& gradient, const Options& options) {
  if (!options.decoupled_weight_decay) return with_penalty(gradient, parameter, options.weight_decay);
  shrink(parameter, options.lr, options.weight_decay);
  return gradient;
}

}  // namespace levin
