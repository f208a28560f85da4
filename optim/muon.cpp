#include "levin/optim/optimizers.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "levin/core/base/error.h"

namespace levin {
namespace {

/// About the nearest orthogonal matrix, by the Newton-Schulz iteration.
at::Tensor orthogonalized(const at::Tensor& matrix, const MuonOptions& options) {
  const auto [a, b, c] = options.ns_coefficients;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor result = matrix.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
  if (is_tall) result = result.t();
  result.div_(result.norm().clamp_min(options.eps));
  for (std::int64_t step = 0; step < options.ns_steps; ++step) {
    const at::Tensor gram = at::mm(result, result.t());
    result = at::addmm(result, at::addmm(gram, gram, gram, b, c), result, a);
  }
  return is_tall ? result.t() : result;
}

double adjusted_rate(const MuonOptions& options, const at::Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0));
  const auto columns = static_cast<double>(matrix.size(1));
  const bool as_adamw = options.adjust_lr_fn == "match_rms_adamw";
  return options.lr * (as_adamw ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns)));
}

}  // namespace

void MuonOptions::declare(OptionList<MuonOptions>& options) {
  using O = MuonOptions;
  options.add("lr", &O::lr, "Learning rate").min(0.0);
  options.add("weight_decay", &O::weight_decay, "Decoupled weight decay").min(0.0);
  options.add("momentum", &O::momentum, "Momentum").min(0.0);
  options.add("nesterov", &O::nesterov, "Nesterov's momentum");
  options.add("ns_coefficients", &O::ns_coefficients, "Coefficients of the Newton-Schulz iteration");
  options.add("eps", &O::eps, "Smallest norm of a matrix").min(0.0);
  options.add("ns_steps", &O::ns_steps, "Steps of the Newton-Schulz iteration").min(0).max(99);
  options.add("adjust_lr_fn", &O::adjust_lr_fn, "How the rate follows a matrix's shape; default: original")
      .choices({"original", "match_rms_adamw"});
}

StateFields MuonState::fields() { return {{"momentum_buffer", &momentum_buffer}}; }

MuonState Muon::first_state(const at::Tensor& parameter, const MuonOptions&) const {
  if (parameter.dim() != 2) {
    std::ostringstream message;
    message << "Muon steps matrices, and has a parameter of shape " << parameter.sizes()
            << ": give it weights with two dimensions, and the others to another optimizer, in configure_optimizers.";
    throw MisuseError(message.str());
  }
  return {.momentum_buffer = at::zeros_like(parameter)};
}

void Muon::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const MuonOptions& options, MuonState& state) {
  state.momentum_buffer.lerp_(gradient, 1 - options.momentum);
  const at::Tensor direction =
      options.nesterov ? gradient.lerp(state.momentum_buffer, options.momentum) : state.momentum_buffer;
  const at::Tensor update = orthogonalized(direction, options);
  parameter.mul_(1 - options.lr * options.weight_decay).sub_(update, adjusted_rate(options, parameter));
}

}  // namespace levin
