#include "levin/optim/fused_optimizers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/fused_step.h"
#include "levin/optim/optimizers.h"

// LibTorch's optimizers: their fused steps, and how YAML makes them.
namespace levin {

namespace {

class FusedSgdStep final : public FusedStep {
 public:
  FusedSgdStep() : FusedStep("aten::_fused_sgd_") {}

 private:
  bool add(Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    if (static_cast<const SGDOptions&>(options).momentum() == 0) {
      if (!fits(parameter, {})) return false;
      take(options, parameter);
      return true;
    }
    auto* state = state_of<torch::optim::SGDParamState>(optimizer, parameter);
    if (state == nullptr || !fits(parameter, {&state->momentum_buffer()})) return false;
    take(options, parameter).state[0].push_back(state->momentum_buffer());
    return true;
  }
  void call_kernel(const FusedBatch& batch, const Rate& rate) override {
    const auto& sgd = static_cast<const SGDOptions&>(*batch.options);
    std::visit(
        [&](const auto& lr) {
          at::_fused_sgd_(batch.parameters, batch.gradients, batch.state[0], sgd.weight_decay(), sgd.momentum(), lr,
                          sgd.dampening(), sgd.nesterov(), /*maximize=*/false, /*is_first_step=*/false);
        },
        rate);
  }
  std::vector<double> numbers_of(const Options& options) const override {
    const auto& sgd = static_cast<const SGDOptions&>(options);
    return {sgd.weight_decay(), sgd.momentum(), sgd.dampening(), sgd.nesterov() ? 1.0 : 0.0};
  }
};

/// Adam and AdamW differ in the kernel only. `Kernel` calls at::_fused_adam_ or at::_fused_adamw_.
template <class AdamOptions, class AdamState, auto Kernel>
class FusedAdamStep final : public FusedStep {
 public:
  using FusedStep::FusedStep;

 private:
  bool add(Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    const bool amsgrad = static_cast<const AdamOptions&>(options).amsgrad();
    AdamState* state = state_of<AdamState>(optimizer, parameter);
    if (state == nullptr || !fits(parameter, {&state->exp_avg(), &state->exp_avg_sq()})) return false;
    if (amsgrad && !fits(parameter, {&state->max_exp_avg_sq()})) return false;
    state->step(state->step() + 1);
    FusedBatch& batch = take(options, parameter, state->step());
    batch.state[0].push_back(state->exp_avg());
    batch.state[1].push_back(state->exp_avg_sq());
    if (amsgrad) batch.state[2].push_back(state->max_exp_avg_sq());
    return true;
  }
  void call_kernel(const FusedBatch& batch, const Rate& rate) override {
    const auto& adam = static_cast<const AdamOptions&>(*batch.options);
    const auto [beta1, beta2] = adam.betas();
    std::visit(
        [&, beta1 = beta1, beta2 = beta2](const auto& lr) {
          Kernel(batch.parameters, batch.gradients, batch.state[0], batch.state[1], batch.state[2], batch.steps, lr, beta1,
                 beta2, adam.weight_decay(), adam.eps(), adam.amsgrad(), /*maximize=*/false);
        },
        rate);
  }
  std::vector<double> numbers_of(const Options& options) const override {
    const auto& adam = static_cast<const AdamOptions&>(options);
    const auto [beta1, beta2] = adam.betas();
    return {beta1, beta2, adam.weight_decay(), adam.eps(), adam.amsgrad() ? 1.0 : 0.0};
  }
};

class FusedAdagradStep final : public FusedStep {
 public:
  FusedAdagradStep() : FusedStep("aten::_fused_adagrad_") {}

 private:
  bool add(Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    auto* state = state_of<torch::optim::AdagradParamState>(optimizer, parameter);
    if (state == nullptr || !fits(parameter, {&state->sum()})) return false;
    state->step(state->step() + 1);
    take(options, parameter, state->step()).state[0].push_back(state->sum());
    return true;
  }
  void call_kernel(const FusedBatch& batch, const Rate& rate) override {
    const auto& adagrad = static_cast<const AdagradOptions&>(*batch.options);
    std::visit(
        [&](const auto& lr) {
          at::_fused_adagrad_(batch.parameters, batch.gradients, batch.state[0], batch.steps, lr, adagrad.lr_decay(),
                              adagrad.weight_decay(), adagrad.eps(), /*maximize=*/false);
        },
        rate);
  }
  std::vector<double> numbers_of(const Options& options) const override {
    const auto& adagrad = static_cast<const AdagradOptions&>(options);
    return {adagrad.lr_decay(), adagrad.weight_decay(), adagrad.eps()};
  }
};

constexpr auto kFusedAdam = [](const auto&... arguments) { at::_fused_adam_(arguments...); };
constexpr auto kFusedAdamW = [](const auto&... arguments) { at::_fused_adamw_(arguments...); };

std::shared_ptr<FusedStep> fused_step_of(const torch::optim::SGD&) { return std::make_shared<FusedSgdStep>(); }
std::shared_ptr<FusedStep> fused_step_of(const torch::optim::Adam&) {
  return std::make_shared<FusedAdamStep<AdamOptions, torch::optim::AdamParamState, kFusedAdam>>("aten::_fused_adam_");
}
std::shared_ptr<FusedStep> fused_step_of(const torch::optim::AdamW&) {
  return std::make_shared<FusedAdamStep<AdamWOptions, torch::optim::AdamWParamState, kFusedAdamW>>("aten::_fused_adamw_");
}
std::shared_ptr<FusedStep> fused_step_of(const torch::optim::Adagrad&) { return std::make_shared<FusedAdagradStep>(); }

}  // namespace

template <class Base, class BaseOptions>
at::Tensor FusedOptimizer<Base, BaseOptions>::step(torch::optim::Optimizer::LossClosure closure) {
  if (!is_fused_) return Base::step(std::move(closure));
  const at::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  if (fused_step_ == nullptr) fused_step_ = fused_step_of(*this);
  fused_step_->run(
      *this, [this] { Base::step(nullptr); }, runner_);
  return loss;
}

template <class Base, class BaseOptions>
bool FusedOptimizer<Base, BaseOptions>::run_steps_by(StepRunner* runner) {
  runner_ = runner;
  if (fused_step_ != nullptr) fused_step_->forget_sent_numbers();
  return is_fused_;
}

template class FusedOptimizer<torch::optim::SGD, SGDOptions>;
template class FusedOptimizer<torch::optim::Adam, AdamOptions>;
template class FusedOptimizer<torch::optim::AdamW, AdamWOptions>;
template class FusedOptimizer<torch::optim::Adagrad, AdagradOptions>;

namespace {

constexpr const char* kFusedHelp =
    "Steps by ATen's fused kernel, with the numbers of LibTorch's own step; false: LibTorch's own";

struct SgdFactoryOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool fused = true;
  static void declare(OptionList<SgdFactoryOptions>& options) {
    using Options = SgdFactoryOptions;
    options.add(&Options::lr, "Learning rate").min(0.0);
    options.add(&Options::momentum, "Momentum").min(0.0);
    options.add(&Options::dampening, "Dampening of the momentum");
    options.add(&Options::weight_decay, "L2 penalty").min(0.0);
    options.add(&Options::nesterov, "Nesterov's momentum; needs momentum above 0 and no dampening");
    options.add(&Options::fused, kFusedHelp);
    options.rule({"nesterov"}, [](const Options& sgd) {
      const bool fits = !sgd.nesterov || (sgd.momentum > 0.0 && sgd.dampening == 0.0);
      return fits ? "" : "nesterov needs a momentum above 0 and a dampening of 0";
    });
  }
};

template <bool kDecoupled>
struct AdamFactoryOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = kDecoupled ? 1e-2 : 0.0;
  bool amsgrad = false;
  bool fused = true;
  static void declare(OptionList<AdamFactoryOptions>& options) {
    using Options = AdamFactoryOptions;
    options.add(&Options::lr, "Learning rate").min(0.0);
    options.add(&Options::betas, "Decay of the averages of the gradient and of its square");
    options.add(&Options::eps, "Added to the denominator").min(0.0);
    options.add(&Options::weight_decay, kDecoupled ? "Decoupled weight decay" : "L2 penalty").min(0.0);
    options.add(&Options::amsgrad, "The AMSGrad variant");
    options.add(&Options::fused, kFusedHelp);
  }
};

struct RmspropFactoryOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  static void declare(OptionList<RmspropFactoryOptions>& options) {
    using Options = RmspropFactoryOptions;
    options.add(&Options::lr, "Learning rate").min(0.0);
    options.add(&Options::alpha, "Decay of the average of the squared gradient").min(0.0);
    options.add(&Options::eps, "Added to the denominator").min(0.0);
    options.add(&Options::weight_decay, "L2 penalty").min(0.0);
    options.add(&Options::momentum, "Momentum").min(0.0);
    options.add(&Options::centered, "Normalize by an estimate of the variance");
  }
};

struct AdagradFactoryOptions {
  double lr = 1e-2;
  double lr_decay = 0.0;
  double weight_decay = 0.0;
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
  bool fused = true;
  static void declare(OptionList<AdagradFactoryOptions>& options) {
    using Options = AdagradFactoryOptions;
    options.add(&Options::lr, "Learning rate").min(0.0);
    options.add(&Options::lr_decay, "Decay of the learning rate").min(0.0);
    options.add(&Options::weight_decay, "L2 penalty").min(0.0);
    options.add(&Options::initial_accumulator_value, "First sum of squares").min(0.0);
    options.add(&Options::eps, "Added to the denominator").min(0.0);
    options.add(&Options::fused, kFusedHelp);
  }
};

struct LbfgsFactoryOptions {
  double lr = 1.0;
  std::int64_t max_iter = 20;
  std::optional<std::int64_t> max_eval;
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;
  std::optional<std::string> line_search_fn;
  static void declare(OptionList<LbfgsFactoryOptions>& options) {
    using Options = LbfgsFactoryOptions;
    options.add(&Options::lr, "Learning rate").min(0.0);
    options.add(&Options::max_iter, "Iterations of one step").min(1);
    options.add(&Options::max_eval, "Evaluations of one step; default: max_iter * 5 / 4").min(1);
    options.add(&Options::tolerance_grad, "Largest gradient at which a step ends");
    options.add(&Options::tolerance_change, "Smallest change at which a step ends");
    options.add(&Options::history_size, "Updates that are remembered").min(1);
    options.add(&Options::line_search_fn, "Line search; default: none").choices({"strong_wolfe"});
  }
};

/// Makes one of LibTorch's optimizers, whose options have the names of YAML's.
template <class Optimizer, class TorchOptions, class FactoryOptions>
class Factory final : public OptimizerFactory {
 public:
  using Options = FactoryOptions;
  explicit Factory(Options options) : options_(std::move(options)) {}
  std::shared_ptr<torch::optim::Optimizer> make(std::vector<at::Tensor> parameters) const override {
    detail::check_has_parameters(parameters);
    TorchOptions options(options_.lr);
    set_option_values(options, write_options(options_));
    if constexpr (requires { options_.fused; }) {
      return std::make_shared<Optimizer>(std::move(parameters), std::move(options), options_.fused);
    } else {
      return std::make_shared<Optimizer>(std::move(parameters), std::move(options));
    }
  }

 private:
  Options options_;
};

using AdagradFactory = Factory<Adagrad, AdagradOptions, AdagradFactoryOptions>;
using AdamFactory = Factory<Adam, AdamOptions, AdamFactoryOptions</*kDecoupled=*/false>>;
using AdamWFactory = Factory<AdamW, AdamWOptions, AdamFactoryOptions</*kDecoupled=*/true>>;
using LbfgsFactory = Factory<torch::optim::LBFGS, torch::optim::LBFGSOptions, LbfgsFactoryOptions>;
using RmspropFactory = Factory<torch::optim::RMSprop, torch::optim::RMSpropOptions, RmspropFactoryOptions>;
using SgdFactory = Factory<SGD, SGDOptions, SgdFactoryOptions>;
LEVIN_REGISTER_(OptimizerFactory, AdagradFactory, "Adagrad", "Adaptive gradients");
LEVIN_REGISTER_(OptimizerFactory, AdamFactory, "Adam", "Adaptive moments");
LEVIN_REGISTER_(OptimizerFactory, AdamWFactory, "AdamW", "Adam with decoupled weight decay");
LEVIN_REGISTER_(OptimizerFactory, LbfgsFactory, "LBFGS", "Limited-memory BFGS; needs a closure");
LEVIN_REGISTER_(OptimizerFactory, RmspropFactory, "RMSprop", "Root mean square propagation");
LEVIN_REGISTER_(OptimizerFactory, SgdFactory, "SGD", "Stochastic gradient descent");

}  // namespace
}  // namespace levin
