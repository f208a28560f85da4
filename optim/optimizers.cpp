#include "levin/optim/optimizers.h"

#include <ATen/Context.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_factory.h"

namespace levin {

Betas OptionType<Betas>::read(const Value& value) {
  const auto betas = OptionType<std::vector<double>>::read(value);
  const auto valid = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  if (betas.size() != 2 || !valid(betas[0]) || !valid(betas[1])) {
    throw ConfigError(value.mark(), "betas must be two numbers, each at least 0 and below 1");
  }
  return {betas[0], betas[1]};
}

Value OptionType<Betas>::schema() {
  const Value beta = Value::Map{{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}};
  return Value::Map{{"type", "array"}, {"items", beta}, {"minItems", 2}, {"maxItems", 2}};
}

namespace {

/// The gradient of the loss and of an L2 penalty.
at::Tensor with_penalty(const at::Tensor& gradient, const at::Tensor& parameter, double weight_decay) {
  return weight_decay == 0 ? gradient : gradient.add(parameter, weight_decay);
}

/// Weight decay as in AdamW: the parameter shrinks, whatever its gradient.
void shrink(at::Tensor& parameter, double lr, double weight_decay) {
  if (weight_decay != 0) parameter.mul_(1 - lr * weight_decay);
}

/// Weight decay according to the options: decoupled, or as a penalty, whose gradient is added. Returns the gradient to step by.
template <class Options>
at::Tensor decay_weights(at::Tensor& parameter, const at::Tensor& gradient, const Options& options) {
  if (!options.decoupled_weight_decay) return with_penalty(gradient, parameter, options.weight_decay);
  shrink(parameter, options.lr, options.weight_decay);
  return gradient;
}

}  // namespace

LEVIN_REGISTER_OPTIMIZER(Adadelta, "Steps in the units of the parameters");

void AdadeltaOptions::declare(OptionList<AdadeltaOptions>& options) {
  using O = AdadeltaOptions;
  options.add(&O::lr, "Factor of each step").min(0.0);
  options.add(&O::rho, "Decay of the averages of squared gradients and steps").min(0.0).max(1.0);
  options.add(&O::eps, "Added to both averages").min(0.0);
  options.add(&O::weight_decay, "L2 penalty").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void Adadelta::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  ++state.step;
  const at::Tensor slope = with_penalty(gradient, parameter, options.weight_decay);
  state.square_avg.mul_(options.rho).addcmul_(slope, slope, 1 - options.rho);
  const at::Tensor size = state.square_avg.add(options.eps).sqrt_();
  const at::Tensor delta = state.acc_delta.add(options.eps).sqrt_().div_(size).mul_(slope);
  state.acc_delta.mul_(options.rho).addcmul_(delta, delta, 1 - options.rho);
  parameter.sub_(delta, options.lr);
}

namespace {

double resolution(at::ScalarType type) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "Adafactor",
                                         [] { return static_cast<double>(std::numeric_limits<scalar_t>::epsilon()); });
}

double root_mean_square(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2).item<double>() / std::sqrt(static_cast<double>(tensor.numel()));
}

at::Tensor mean_square(const at::Tensor& gradient, std::int64_t dimension) {
  const at::Tensor norm = at::linalg_vector_norm(gradient, 2, at::IntArrayRef{dimension}, /*keepdim=*/true);
  return norm.square().div_(static_cast<double>(gradient.size(dimension)));
}

at::Tensor zeros_with_one(const at::Tensor& parameter, std::int64_t dimension) {
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  sizes[static_cast<std::size_t>(parameter.dim() + dimension)] = 1;
  return at::zeros(sizes, parameter.options().requires_grad(false));
}

}  // namespace

LEVIN_REGISTER_OPTIMIZER(Adafactor, "Adaptive steps with little memory");

void AdafactorOptions::declare(OptionList<AdafactorOptions>& options) {
  using O = AdafactorOptions;
  options.add(&O::lr, "Largest learning rate").min(0.0);
  options.add(&O::beta2_decay, "Power with which new squares count less").max(0.0);
  options.add(&O::eps, "Smallest root of a square (null: the resolution of the type), and smallest size of parameters");
  options.add(&O::d, "Root mean square that an update is clipped to").min(1.0);
  options.add(&O::weight_decay, "Decoupled weight decay").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
  options.rule({"eps"}, [](const O& adafactor) {
    const auto& [root, size] = adafactor.eps;
    return root.value_or(0) >= 0 && size >= 0 ? "" : "eps must be two numbers that are at least 0";
  });
}

StateFields AdafactorState::fields() {
  return {{"step", &step}, {"row_var", OwnShape{&row_var}}, {"col_var", OwnShape{&col_var}}, {"variance", &variance}};
}

AdafactorState Adafactor::first_state(const at::Tensor& parameter, const Options&) const {
  if (parameter.dim() < 2) return {.variance = at::zeros_like(parameter)};
  return {.row_var = zeros_with_one(parameter, -1), .col_var = zeros_with_one(parameter, -2)};
}

void Adafactor::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  if (parameter.numel() == 0) return;
  const auto step = static_cast<double>(++state.step);
  const double smallest = std::get<0>(options.eps).value_or(resolution(parameter.scalar_type()));
  const double part_of_new = std::pow(step, options.beta2_decay);
  const double rate =
      std::max(std::get<1>(options.eps), root_mean_square(parameter)) * std::min(options.lr, 1 / std::sqrt(step));
  shrink(parameter, options.lr, options.weight_decay);
  at::Tensor estimate;
  if (parameter.dim() > 1) {
    state.row_var.lerp_(mean_square(gradient, -1), part_of_new);
    state.col_var.lerp_(mean_square(gradient, -2), part_of_new);
    estimate = at::matmul(state.row_var, state.col_var);
    estimate.div_(state.row_var.mean(-2, /*keepdim=*/true).clamp_min_(smallest));
  } else {
    state.variance.lerp_(gradient * gradient, part_of_new);
    estimate = state.variance.clone();
  }
  const at::Tensor update = estimate.clamp_min_(smallest * smallest).rsqrt_().mul_(gradient);
  parameter.sub_(update, rate / std::max(1.0, root_mean_square(update) / options.d));
}

LEVIN_REGISTER_OPTIMIZER(Adamax, "Adam with the infinity norm");

void AdamaxOptions::declare(OptionList<AdamaxOptions>& options) {
  using O = AdamaxOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the average of the gradient, and of its largest size");
  options.add(&O::eps, "Added to the size of the gradient").min(0.0);
  options.add(&O::weight_decay, "L2 penalty").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void Adamax::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = with_penalty(gradient, parameter, options.weight_decay);
  state.exp_avg.lerp_(slope, 1 - beta1);
  at::maximum_out(state.exp_inf, state.exp_inf.mul_(beta2), slope.abs().add_(options.eps));
  parameter.addcdiv_(state.exp_avg, state.exp_inf, -options.lr / (1 - std::pow(beta1, step)));
}

LEVIN_REGISTER_OPTIMIZER(ASGD, "Averaged stochastic gradient descent");

void ASGDOptions::declare(OptionList<ASGDOptions>& options) {
  using O = ASGDOptions;
  options.add(&O::lr, "Learning rate at the beginning").min(0.0);
  options.add(&O::lambd, "Decay of the weights, and of the rate");
  options.add(&O::alpha, "Power of the decay of the rate");
  options.add(&O::t0, "Step from which weights are averaged");
  options.add(&O::weight_decay, "L2 penalty").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

ASGDState ASGD::first_state(const at::Tensor& parameter, const Options& options) const {
  return {.eta = options.lr, .ax = at::zeros_like(parameter)};
}

void ASGD::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = with_penalty(gradient, parameter, options.weight_decay);
  parameter.mul_(1 - options.lambd * state.eta).sub_(slope, state.eta);
  if (state.mu == 1.0) {
    state.ax.copy_(parameter);
  } else {
    state.ax.add_(parameter.sub(state.ax), state.mu);
  }
  state.eta = options.lr / std::pow(1 + options.lambd * options.lr * step, options.alpha);
  state.mu = 1 / std::max(1.0, step - options.t0);
}

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

LEVIN_REGISTER_OPTIMIZER(Muon, "Orthogonalized momentum; for matrices only");

void MuonOptions::declare(OptionList<MuonOptions>& options) {
  using O = MuonOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::weight_decay, "Decoupled weight decay").min(0.0);
  options.add(&O::momentum, "Momentum").min(0.0);
  options.add(&O::nesterov, "Nesterov's momentum");
  options.add(&O::ns_coefficients, "Coefficients of the Newton-Schulz iteration");
  options.add(&O::eps, "Smallest norm of a matrix").min(0.0);
  options.add(&O::ns_steps, "Steps of the Newton-Schulz iteration").min(0).max(99);
  options.add(&O::adjust_lr_fn, "How the rate follows a matrix's shape; default: original")
      .choices({"original", "match_rms_adamw"});
}

MomentumState Muon::first_state(const at::Tensor& parameter, const Options&) const {
  if (parameter.dim() != 2) {
    throw MisuseError(
        format("Muon steps matrices, and has a parameter of shape {}: give it weights with two dimensions, and the others to "
               "another optimizer, in configure_optimizers.",
               c10::str(parameter.sizes())));
  }
  return {.momentum_buffer = at::zeros_like(parameter)};
}

void Muon::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  state.momentum_buffer.lerp_(gradient, 1 - options.momentum);
  const at::Tensor direction =
      options.nesterov ? gradient.lerp(state.momentum_buffer, options.momentum) : state.momentum_buffer;
  const at::Tensor update = orthogonalized(direction, options);
  parameter.mul_(1 - options.lr * options.weight_decay).sub_(update, adjusted_rate(options, parameter));
}

LEVIN_REGISTER_OPTIMIZER(NAdam, "Adam with Nesterov's momentum");

void NAdamOptions::declare(OptionList<NAdamOptions>& options) {
  using O = NAdamOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  options.add(&O::weight_decay, "L2 penalty, or decoupled weight decay").min(0.0);
  options.add(&O::momentum_decay, "How fast the momentum reaches its full size").min(0.0);
  options.add(&O::decoupled_weight_decay, "Weight decay as in AdamW");
  options.add(&O::maximize, "Go up instead of down");
}

void NAdam::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = decay_weights(parameter, gradient, options);
  const auto momentum = [&, first = beta1](double at) {
    return first * (1 - 0.5 * std::pow(0.96, at * options.momentum_decay));
  };
  const double mu = momentum(step);
  const double next_mu = momentum(step + 1);
  state.mu_product *= mu;
  state.exp_avg.lerp_(slope, 1 - beta1);
  state.exp_avg_sq.mul_(beta2).addcmul_(slope, slope, 1 - beta2);
  const at::Tensor denominator = state.exp_avg_sq.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps);
  parameter.addcdiv_(slope, denominator, -options.lr * (1 - mu) / (1 - state.mu_product));
  parameter.addcdiv_(state.exp_avg, denominator, -options.lr * next_mu / (1 - state.mu_product * next_mu));
}

LEVIN_REGISTER_OPTIMIZER(RAdam, "Adam whose rate warms up by itself");

void RAdamOptions::declare(OptionList<RAdamOptions>& options) {
  using O = RAdamOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  options.add(&O::weight_decay, "L2 penalty, or decoupled weight decay").min(0.0);
  options.add(&O::decoupled_weight_decay, "Weight decay as in AdamW");
  options.add(&O::maximize, "Go up instead of down");
}

void RAdam::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = decay_weights(parameter, gradient, options);
  state.exp_avg.lerp_(slope, 1 - beta1);
  state.exp_avg_sq.mul_(beta2).addcmul_(slope, slope, 1 - beta2);
  const double correction2 = 1 - std::pow(beta2, step);
  const double step_size = options.lr / (1 - std::pow(beta1, step));
  // How many gradients the average of squares is made of, in effect, and when there are all that it forgets none of.
  const double longest = 2 / (1 - beta2) - 1;
  const double length = longest - 2 * step * std::pow(beta2, step) / correction2;
  if (length <= 5) {
    parameter.add_(state.exp_avg, -step_size);
    return;
  }
  const double rectification = std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
  parameter.addcdiv_(state.exp_avg, state.exp_avg_sq.sqrt().add_(options.eps),
                     -step_size * rectification * std::sqrt(correction2));
}

LEVIN_REGISTER_OPTIMIZER(Rprop, "Resilient backpropagation; for whole datasets as one batch");

void RpropOptions::declare(OptionList<RpropOptions>& options) {
  using O = RpropOptions;
  options.add(&O::lr, "Length of the first step").min(0.0);
  options.add(&O::etas, "Factors of a step after a gradient of the other sign, and of the same");
  options.add(&O::step_sizes, "The smallest and the largest step");
  options.add(&O::maximize, "Go up instead of down");
  options.rule({"etas"}, [](const O& rprop) {
    const auto [less, more] = rprop.etas;
    return less > 0 && less < 1 && more > 1 ? "" : "etas must be one number between 0 and 1, and one above 1";
  });
}

RpropState Rprop::first_state(const at::Tensor& parameter, const Options& options) const {
  return {.prev = at::zeros_like(parameter), .step_size = at::full_like(parameter, options.lr)};
}

void Rprop::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
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

LEVIN_REGISTER_OPTIMIZER(SparseAdam, "Adam for sparse gradients");

void SparseAdamOptions::declare(OptionList<SparseAdamOptions>& options) {
  using O = SparseAdamOptions;
  options.add(&O::lr, "Learning rate").above(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").above(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void SparseAdam::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  // Each index once, as the step is not linear in the gradient.
  const at::Tensor slope = gradient.coalesce();
  const at::Tensor values = slope._values();
  if (values.numel() == 0) return;
  const auto at_its_places = [&](const at::Tensor& of_places) {
    return at::sparse_coo_tensor(slope._indices(), of_places, slope.sizes());
  };
  /// Moves an average towards new values, and returns its new values at their indices.
  const auto averaged = [&](at::Tensor& average, const at::Tensor& news, double beta) {
    const at::Tensor old = average.sparse_mask(slope)._values();
    const at::Tensor change = news.sub(old).mul_(1 - beta);
    average.add_(at_its_places(change));
    return old.add(change);
  };
  const at::Tensor mean = averaged(state.exp_avg, values, beta1);
  const at::Tensor mean_of_squares = averaged(state.exp_avg_sq, values.square(), beta2);
  const double rate = options.lr * std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
  parameter.add_(at_its_places(mean.div(mean_of_squares.sqrt().add_(options.eps)).mul_(-rate)));
}

namespace {

/// One norm over another; 1 where one of them is zero, as for weights that begin there. A tensor, so that a device is not
/// waited for.
at::Tensor ratio_of_norms(const at::Tensor& above, const at::Tensor& below) {
  return at::where(above.gt(0).logical_and_(below.gt(0)), above / below, at::ones_like(above));
}

/// Random numbers of a step, the same on every rank and in a run that resumes, so that ranks keep equal weights. The generators
/// that modules draw from stay unchanged.
at::Generator generator_of_step(const at::Device& device, std::int64_t step) {
  at::Generator global = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(global.mutex());
  at::Generator generator = global.clone();
  generator.set_current_seed(static_cast<std::uint64_t>(step));
  return generator;
}

/// Writes float32 values as bfloat16, rounded up or down by chance, so that each is right on average: bfloat16 has the first 16
/// bits of float32, and noise in the other 16 carries over as often as they are large.
void round_stochastically(at::Tensor& target, const at::Tensor& values, const at::Generator& generator) {
  constexpr std::int64_t kLostValues = 1 << 16;
  const at::Tensor noise = at::randint(kLostValues, values.sizes(), generator, values.options().dtype(at::kInt));
  target.copy_(noise.add_(values.view(at::kInt)).bitwise_and_(-kLostValues).view(at::kFloat));
}

}  // namespace

LEVIN_REGISTER_OPTIMIZER(Lion, "Steps by the sign of a momentum");

void LionOptions::declare(OptionList<LionOptions>& options) {
  using O = LionOptions;
  options.add(&O::lr, "Learning rate: a third to a tenth of AdamW's").min(0.0);
  options.add(&O::betas, "Parts of the momentum in a step, and in the next momentum");
  options.add(&O::weight_decay, "Decoupled weight decay: three to ten times AdamW's").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void Lion::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  parameter.mul_(1 - options.lr * options.weight_decay);
  parameter.sub_(state.exp_avg.lerp(gradient, 1 - options.betas.first).sign_(), options.lr);
  state.exp_avg.lerp_(gradient, 1 - options.betas.second);
}

LEVIN_REGISTER_OPTIMIZER(LAMB, "AdamW with steps in proportion to each parameter's size, for large batches");

void LAMBOptions::declare(OptionList<LAMBOptions>& options) {
  using O = LAMBOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  options.add(&O::weight_decay, "Decoupled weight decay, part of the step that is scaled").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void LAMB::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  state.exp_avg.lerp_(gradient, 1 - beta1);
  state.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  at::Tensor update = state.exp_avg_sq.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps).reciprocal_();
  update.mul_(state.exp_avg).div_(1 - std::pow(beta1, step)).add_(parameter, options.weight_decay);
  const at::Tensor trust = ratio_of_norms(at::linalg_vector_norm(parameter, 2), at::linalg_vector_norm(update, 2));
  parameter.sub_(update.mul_(trust), options.lr);
}

LEVIN_REGISTER_OPTIMIZER(LARS, "SGD with steps in proportion to each parameter's size, for large batches");

void LARSOptions::declare(OptionList<LARSOptions>& options) {
  using O = LARSOptions;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::momentum, "Momentum").min(0.0);
  options.add(&O::weight_decay, "L2 penalty").min(0.0);
  options.add(&O::trust_coefficient, "Size of a step relative to the parameter's, at a rate of 1").above(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

void LARS::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const at::Tensor size = at::linalg_vector_norm(parameter, 2);
  const at::Tensor slope = at::linalg_vector_norm(gradient, 2);
  const at::Tensor resistance = slope.add(size, options.weight_decay);
  const at::Tensor no_trust = size.eq(0).logical_or_(slope.eq(0));
  const at::Tensor trust = at::where(no_trust, at::ones_like(size), size / resistance * options.trust_coefficient);
  const at::Tensor update = gradient.add(parameter, options.weight_decay).mul_(trust);
  state.momentum_buffer.mul_(options.momentum).add_(update, options.lr);
  parameter.sub_(state.momentum_buffer);
}

LEVIN_REGISTER_OPTIMIZER(AdamWBf16, "AdamW with half the state, in bfloat16");

void AdamWBf16Options::declare(OptionList<AdamWBf16Options>& options) {
  using O = AdamWBf16Options;
  options.add(&O::lr, "Learning rate").min(0.0);
  options.add(&O::betas, "Decay of the averages of the gradient and of its square");
  options.add(&O::eps, "Added to the denominator").min(0.0);
  options.add(&O::weight_decay, "Decoupled weight decay").min(0.0);
  options.add(&O::maximize, "Go up instead of down");
}

MomentsState AdamWBf16::first_state(const at::Tensor& parameter, const Options&) const {
  const auto options = parameter.options().dtype(at::kBFloat16).requires_grad(false);
  return {.exp_avg = at::zeros_like(parameter, options), .exp_avg_sq = at::zeros_like(parameter, options)};
}

void AdamWBf16::step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) {
  const auto [beta1, beta2] = options.betas;
  const auto step = static_cast<double>(++state.step);
  const at::Tensor slope = gradient.to(at::kFloat);
  const at::Tensor mean = state.exp_avg.to(at::kFloat).lerp_(slope, 1 - beta1);
  const at::Tensor mean_of_squares = state.exp_avg_sq.to(at::kFloat).mul_(beta2).addcmul_(slope, slope, 1 - beta2);
  const at::Generator generator = generator_of_step(parameter.device(), state.step);
  round_stochastically(state.exp_avg, mean, generator);
  round_stochastically(state.exp_avg_sq, mean_of_squares, generator);
  parameter.mul_(1 - options.lr * options.weight_decay);
  const at::Tensor size = mean_of_squares.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps);
  parameter.addcdiv_(mean, size, -options.lr / (1 - std::pow(beta1, step)));
}

}  // namespace levin
