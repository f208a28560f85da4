#include "levin/optim/optimizers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

namespace levin {

void RpropOptions::declare(OptionList<RpropOptions>& options) {
  using O = RpropOptions;
  options.add("lr", &O::lr, "Length of the first step").min(0.0);
  options.add("etas", &O::etas, "Factors of a step after a gradient of the other sign, and of the same");
  options.add("step_sizes", &O::step_sizes, "The smallest and the largest step");
  options.add("maximize", &O::maximize, "Go up instead of down");
  options.rule({"etas"}, [](const O& rprop) {
    const auto [less, more] = rprop.etas;
    return less > 0 && less < 1 && more > 1 ? "" : "etas must be one number between 0 and 1, and one above 1";
  });
}

StateFields RpropState::fields() { return {{"step", &step}, {"prev", &prev}, {"step_size", &step_size}}; }

RpropState Rprop::first_state(const at::Tensor& parameter, const RpropOptions& options) const {
  return {.prev = at::zeros_like(parameter), .step_size = at::full_like(parameter, options.lr)};
}

void Rprop::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const RpropOptions& options, RpropState& state) {
  ++state.step;
  const auto [less, more] = options.etas;
  const auto [smallest, largest] = options.step_sizes;
  const at::Tensor agreement = gradient * state.prev;
  const at::Tensor turned = agreement.lt(0);
  state.step_size.mul_(at::ones_like(agreement).masked_fill_(turned, less).masked_fill_(agreement.gt(0), more));
  state.step_size.clamp_(smallest, largest);
  state.prev.copy_(gradient).masked_fill_(turned, 0);
  parameter.sub_(state.prev.sign().mul_(state.step_size));
}

}  // namespace levin
