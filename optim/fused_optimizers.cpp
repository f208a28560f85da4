#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>

#include <memory>
#include <tuple>

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/fused_step.h"
#include "levin/optim/optimizers.h"

// LibTorch's optimizers: their fused steps, and how YAML makes them.
namespace levin {

template <class Base, class BaseOptions>
FusedOptimizer<Base, BaseOptions>::FusedOptimizer(std::vector<at::Tensor> parameters, BaseOptions options, bool fused)
    : FusedOptimizer(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options), fused) {}

template <class Base, class BaseOptions>
FusedOptimizer<Base, BaseOptions>::FusedOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                                                  BaseOptions options, bool fused)
    : Base(groups, std::move(options)), is_fused_(fused) {}

template <class Base, class BaseOptions>
FusedOptimizer<Base, BaseOptions>::FusedOptimizer(FusedOptimizer&& other) noexcept = default;
template <class Base, class BaseOptions>
FusedOptimizer<Base, BaseOptions>::~FusedOptimizer() = default;

template <class Base, class BaseOptions>
at::Tensor FusedOptimizer<Base, BaseOptions>::step(torch::optim::Optimizer::LossClosure closure) {
  if (!is_fused_) return Base::step(std::move(closure));
  if (fused_step_ == nullptr) fused_step_ = make_fused_step();
  return fused_step_->run(*this, closure, [this] { Base::step(nullptr); });
}

template class FusedOptimizer<torch::optim::SGD, SGDOptions>;
template class FusedOptimizer<torch::optim::Adam, AdamOptions>;
template class FusedOptimizer<torch::optim::AdamW, AdamWOptions>;
template class FusedOptimizer<torch::optim::Adagrad, AdagradOptions>;

namespace {

class FusedSgdStep final : public FusedStep {
  bool add(torch::optim::Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    if (static_cast<const SGDOptions&>(options).momentum() == 0) {
      if (!fits(parameter, {})) return false;
      take(parameter);
      return true;
    }
    const auto* state = state_of<torch::optim::SGDParamState>(optimizer, parameter);
    const bool is_first = state == nullptr;
    if (!(is_first ? fits(parameter, {}) : fits(parameter, {&state->momentum_buffer()}))) return false;
    if (is_first) {
      auto made = std::make_unique<torch::optim::SGDParamState>();
      made->momentum_buffer(at::zeros_like(parameter));
      state = made.get();
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(made);
    }
    take(parameter, is_first).state[0].push_back(state->momentum_buffer());
    return true;
  }
  void step(const Options& options, FusedBatch& batch) override {
    const auto& sgd = static_cast<const SGDOptions&>(options);
    at::_fused_sgd_(batch.parameters, batch.gradients, batch.state[0], sgd.weight_decay(), sgd.momentum(), sgd.lr(),
                    sgd.dampening(), sgd.nesterov(), /*maximize=*/false, batch.is_first);
  }
};

/// Adam and AdamW differ in the kernel only. `Kernel` calls at::_fused_adam_ or at::_fused_adamw_.
template <class AdamOptions, class AdamState, auto Kernel>
class FusedAdamStep final : public FusedStep {
 private:
  bool add(torch::optim::Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    const bool amsgrad = static_cast<const AdamOptions&>(options).amsgrad();
    AdamState* state = state_of<AdamState>(optimizer, parameter);
    if (state == nullptr) {
      if (!fits(parameter, {})) return false;
      state = begin(optimizer, parameter, amsgrad);
    } else if (!(amsgrad ? fits(parameter, {&state->exp_avg(), &state->exp_avg_sq(), &state->max_exp_avg_sq()})
                         : fits(parameter, {&state->exp_avg(), &state->exp_avg_sq()}))) {
      return false;
    }
    state->step(state->step() + 1);
    FusedBatch& batch = take(parameter);
    batch.state[0].push_back(state->exp_avg());
    batch.state[1].push_back(state->exp_avg_sq());
    if (amsgrad) batch.state[2].push_back(state->max_exp_avg_sq());
    batch.steps.push_back(step_tensor(state->step(), parameter.device()));
    return true;
  }

  void step(const Options& options, FusedBatch& batch) override {
    const auto& adam = static_cast<const AdamOptions&>(options);
    const auto [beta1, beta2] = adam.betas();
    Kernel(batch.parameters, batch.gradients, batch.state[0], batch.state[1], batch.state[2], batch.steps, adam.lr(), beta1,
           beta2, adam.weight_decay(), adam.eps(), adam.amsgrad(), /*maximize=*/false);
  }

  static AdamState* begin(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, bool amsgrad) {
    auto made = std::make_unique<AdamState>();
    made->step(0);
    made->exp_avg(at::zeros_like(parameter));
    made->exp_avg_sq(at::zeros_like(parameter));
    if (amsgrad) made->max_exp_avg_sq(at::zeros_like(parameter));
    AdamState* const state = made.get();
    optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(made);
    return state;
  }
};

class FusedAdagradStep final : public FusedStep {
  bool add(torch::optim::Optimizer& optimizer, const Options&, at::Tensor& parameter) override {
    auto* state = state_of<torch::optim::AdagradParamState>(optimizer, parameter);
    if (state == nullptr || !fits(parameter, {&state->sum()})) return false;
    state->step(state->step() + 1);
    FusedBatch& batch = take(parameter);
    batch.state[0].push_back(state->sum());
    batch.steps.push_back(step_tensor(state->step(), parameter.device()));
    return true;
  }
  void step(const Options& options, FusedBatch& batch) override {
    const auto& adagrad = static_cast<const AdagradOptions&>(options);
    at::_fused_adagrad_(batch.parameters, batch.gradients, batch.state[0], batch.steps, adagrad.lr(), adagrad.lr_decay(),
                        adagrad.weight_decay(), adagrad.eps(), /*maximize=*/false);
  }
};

constexpr auto kFusedAdam = [](const auto&... arguments) { at::_fused_adam_(arguments...); };
constexpr auto kFusedAdamW = [](const auto&... arguments) { at::_fused_adamw_(arguments...); };

}  // namespace

std::unique_ptr<FusedStep> SGD::make_fused_step() const { return std::make_unique<FusedSgdStep>(); }
std::unique_ptr<FusedStep> Adam::make_fused_step() const {
  return std::make_unique<FusedAdamStep<AdamOptions, torch::optim::AdamParamState, kFusedAdam>>();
}
std::unique_ptr<FusedStep> AdamW::make_fused_step() const {
  return std::make_unique<FusedAdamStep<AdamWOptions, torch::optim::AdamWParamState, kFusedAdamW>>();
}
std::unique_ptr<FusedStep> Adagrad::make_fused_step() const { return std::make_unique<FusedAdagradStep>(); }

namespace {

using Parameters = std::vector<at::Tensor>;

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
    options.add("lr", &Options::lr, "Learning rate").min(0.0);
    options.add("momentum", &Options::momentum, "Momentum").min(0.0);
    options.add("dampening", &Options::dampening, "Dampening of the momentum");
    options.add("weight_decay", &Options::weight_decay, "L2 penalty").min(0.0);
    options.add("nesterov", &Options::nesterov, "Nesterov's momentum; needs momentum above 0 and no dampening");
    options.add("fused", &Options::fused, kFusedHelp);
    options.rule({"nesterov"}, [](const Options& sgd) {
      const bool fits = !sgd.nesterov || (sgd.momentum > 0.0 && sgd.dampening == 0.0);
      return fits ? "" : "nesterov needs a momentum above 0 and a dampening of 0";
    });
  }
  std::shared_ptr<torch::optim::Optimizer> make(Parameters parameters) const {
    auto options = SGDOptions(lr).momentum(momentum).dampening(dampening).weight_decay(weight_decay).nesterov(nesterov);
    return std::make_shared<SGD>(std::move(parameters), options, fused);
  }
};

struct AdamFactoryOptions {
  double lr = 1e-3;
  Betas betas;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool amsgrad = false;
  bool fused = true;
  template <class Options>
  static void declare_all(OptionList<Options>& options, const char* weight_decay_help) {
    options.add("lr", &Options::lr, "Learning rate").min(0.0);
    options.add("betas", &Options::betas, "Decay of the averages of the gradient and of its square");
    options.add("eps", &Options::eps, "Added to the denominator").min(0.0);
    options.add("weight_decay", &Options::weight_decay, weight_decay_help).min(0.0);
    options.add("amsgrad", &Options::amsgrad, "The AMSGrad variant");
    options.add("fused", &Options::fused, kFusedHelp);
  }
  static void declare(OptionList<AdamFactoryOptions>& options) { declare_all(options, "L2 penalty"); }
  template <class Optimizer, class TorchOptions>
  std::shared_ptr<torch::optim::Optimizer> make_as(Parameters parameters) const {
    auto options = TorchOptions(lr).betas({betas.first, betas.second}).eps(eps).weight_decay(weight_decay).amsgrad(amsgrad);
    return std::make_shared<Optimizer>(std::move(parameters), options, fused);
  }
  std::shared_ptr<torch::optim::Optimizer> make(Parameters parameters) const {
    return make_as<Adam, AdamOptions>(std::move(parameters));
  }
};

struct AdamWFactoryOptions : AdamFactoryOptions {
  AdamWFactoryOptions() { weight_decay = 1e-2; }
  static void declare(OptionList<AdamWFactoryOptions>& options) { declare_all(options, "Decoupled weight decay"); }
  std::shared_ptr<torch::optim::Optimizer> make(Parameters parameters) const {
    return make_as<AdamW, AdamWOptions>(std::move(parameters));
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
    options.add("lr", &Options::lr, "Learning rate").min(0.0);
    options.add("alpha", &Options::alpha, "Decay of the average of the squared gradient").min(0.0);
    options.add("eps", &Options::eps, "Added to the denominator").min(0.0);
    options.add("weight_decay", &Options::weight_decay, "L2 penalty").min(0.0);
    options.add("momentum", &Options::momentum, "Momentum").min(0.0);
    options.add("centered", &Options::centered, "Normalize by an estimate of the variance");
  }
  std::shared_ptr<torch::optim::Optimizer> make(Parameters parameters) const {
    auto options = torch::optim::RMSpropOptions(lr).alpha(alpha).eps(eps).weight_decay(weight_decay);
    return std::make_shared<torch::optim::RMSprop>(std::move(parameters), options.momentum(momentum).centered(centered));
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
    options.add("lr", &Options::lr, "Learning rate").min(0.0);
    options.add("lr_decay", &Options::lr_decay, "Decay of the learning rate").min(0.0);
    options.add("weight_decay", &Options::weight_decay, "L2 penalty").min(0.0);
    options.add("initial_accumulator_value", &Options::initial_accumulator_value, "First sum of squares").min(0.0);
    options.add("eps", &Options::eps, "Added to the denominator").min(0.0);
    options.add("fused", &Options::fused, kFusedHelp);
  }
  std::shared_ptr<torch::optim::Optimizer> make(Parameters parameters) const {
    auto options = AdagradOptions(lr).lr_decay(lr_decay).weight_decay(weight_decay);
    options.initial_accumulator_value(initial_accumulator_value).eps(eps);
    return std::make_shared<Adagrad>(std::move(parameters), options, fused);
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
    options.add("lr", &Options::lr, "Learning rate").min(0.0);
    options.add("max_iter", &Options::max_iter, "Iterations of one step").min(1);
    options.add("max_eval", &Options::max_eval, "Evaluations of one step; default: max_iter * 5 / 4").min(1);
    options.add("tolerance_grad", &Options::tolerance_grad, "Largest gradient at which a step ends");
    options.add("tolerance_change", &Options::tolerance_change, "Smallest change at which a step ends");
    options.add("history_size", &Options::history_size, "Updates that are remembered").min(1);
    options.add("line_search_fn", &Options::line_search_fn, "Line search; default: none").choices({"strong_wolfe"});
  }
  std::shared_ptr<torch::optim::Optimizer> make(Parameters parameters) const {
    auto options = torch::optim::LBFGSOptions(lr).max_iter(max_iter).max_eval(max_eval).tolerance_grad(tolerance_grad);
    options.tolerance_change(tolerance_change).history_size(history_size).line_search_fn(line_search_fn);
    return std::make_shared<torch::optim::LBFGS>(std::move(parameters), options);
  }
};

template <class FactoryOptions>
class Factory final : public OptimizerFactory {
 public:
  using Options = FactoryOptions;
  explicit Factory(Options options) : options_(std::move(options)) {}
  std::shared_ptr<torch::optim::Optimizer> make(Parameters parameters) const override {
    detail::check_has_parameters(parameters);
    return options_.make(std::move(parameters));
  }

 private:
  Options options_;
};

LEVIN_REGISTER_(OptimizerFactory, Factory<AdagradFactoryOptions>, "Adagrad", "Adaptive gradients");
LEVIN_REGISTER_(OptimizerFactory, Factory<AdamFactoryOptions>, "Adam", "Adaptive moments");
LEVIN_REGISTER_(OptimizerFactory, Factory<AdamWFactoryOptions>, "AdamW", "Adam with decoupled weight decay");
LEVIN_REGISTER_(OptimizerFactory, Factory<LbfgsFactoryOptions>, "LBFGS", "Limited-memory BFGS; needs a closure");
LEVIN_REGISTER_(OptimizerFactory, Factory<RmspropFactoryOptions>, "RMSprop", "Root mean square propagation");
LEVIN_REGISTER_(OptimizerFactory, Factory<SgdFactoryOptions>, "SGD", "Stochastic gradient descent");

}  // namespace
}  // namespace levin
