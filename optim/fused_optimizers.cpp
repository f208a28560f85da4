#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <c10/util/ParallelGuard.h>
#include <c10/util/ScopeExit.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/optimizers.h"

// LibTorch's optimizers: their fused steps, and how YAML makes them.
namespace levin {

/// What one call of a fused kernel steps: parameters of one group, device and type. The lists have an entry for each.
struct FusedBatch {
  bool in_threads = false;  ///< large enough to be divided over threads
  std::vector<at::Tensor> parameters, gradients, steps;
  std::array<std::vector<at::Tensor>, 3> state;
};

/// Steps an optimizer of LibTorch with ATen's fused kernels, which go over the memory of a parameter, its gradient and its
/// state once, where LibTorch's own step goes over them in a dozen operations. A derived class knows the state of one optimizer
/// class and its kernel. Between two steps it keeps memory only, no tensor of the optimizer's.
class FusedStep {
 public:
  using Optimizer = torch::optim::Optimizer;
  virtual ~FusedStep() = default;

  /// As Optimizer::step(). `plain_step` is LibTorch's own, without a closure: it steps what the kernel does not take (sparse
  /// and complex gradients, types of 16 bits, whose numbers would be others, memory that is not in the same order), and each
  /// parameter for the first time, which makes its state.
  at::Tensor run(Optimizer& optimizer, const Optimizer::LossClosure& closure, const std::function<void()>& plain_step) {
    const at::NoGradGuard no_grad;
    at::Tensor loss;
    if (closure != nullptr) {
      const at::AutoGradMode enable_grad(true);
      loss = closure();
    }
    step_tensors_.clear();
    bool any_left = false;
    left_.resize(optimizer.param_groups().size());
    for (std::size_t index = 0; index < left_.size(); ++index) {
      torch::optim::OptimizerParamGroup& group = optimizer.param_groups()[index];
      left_[index].clear();
      for (at::Tensor& parameter : group.params()) {
        if (!parameter.grad().defined() || add(optimizer, group.options(), parameter)) continue;
        left_[index].push_back(parameter);
        any_left = true;
      }
      step_batches(group.options());
    }
    if (any_left) {
      const auto swap_all = [&] {
        for (std::size_t group = 0; group < left_.size(); ++group) optimizer.param_groups()[group].params().swap(left_[group]);
      };
      swap_all();
      const auto swap_back = c10::make_scope_exit(swap_all);
      plain_step();
    }
    for (std::vector<at::Tensor>& left : left_) left.clear();
    return loss;
  }

 protected:
  using Options = torch::optim::OptimizerOptions;

  /// Adds a parameter, by take(). False, with nothing changed, when the kernel does not take it.
  virtual bool add(Optimizer& optimizer, const Options& options, at::Tensor& parameter) = 0;
  /// Calls the kernel.
  virtual void step(const Options& options, FusedBatch& batch) = 0;

  /// Whether the kernel takes a parameter, its gradient, and the tensors of its state.
  static bool fits(const at::Tensor& parameter, std::initializer_list<const at::Tensor*> state) {
    const at::ScalarType type = parameter.scalar_type();
    if (type != at::kFloat && type != at::kDouble) return false;
    if (parameter.layout() != at::kStrided || !(parameter.is_cpu() || parameter.is_cuda())) return false;
    if (!parameter.is_contiguous() && !parameter.is_non_overlapping_and_dense()) return false;
    const auto fits_parameter = [&](const at::Tensor& tensor) {
      return tensor.defined() && tensor.layout() == at::kStrided && tensor.scalar_type() == type &&
             tensor.device() == parameter.device() && tensor.sizes() == parameter.sizes() &&
             // The kernels go over memory as it lies.
             ((tensor.is_contiguous() && parameter.is_contiguous()) || tensor.strides() == parameter.strides());
    };
    return fits_parameter(parameter.grad()) &&
           std::all_of(state.begin(), state.end(), [&](const at::Tensor* tensor) { return fits_parameter(*tensor); });
  }

  /// The batch that a parameter belongs to, which has it and its gradient now.
  FusedBatch& take(const at::Tensor& parameter) {
    const bool in_threads = parameter.numel() > at::internal::GRAIN_SIZE && at::get_num_threads() > 1;
    const auto is_empty = [](const FusedBatch& batch) { return batch.parameters.empty(); };
    const auto is_alike = [&](const FusedBatch& batch) {
      if (is_empty(batch) || batch.in_threads != in_threads) return false;
      const at::Tensor& one = batch.parameters.front();
      return one.device() == parameter.device() && one.scalar_type() == parameter.scalar_type();
    };
    auto batch = std::find_if(batches_.begin(), batches_.end(), is_alike);
    if (batch == batches_.end()) batch = std::find_if(batches_.begin(), batches_.end(), is_empty);
    if (batch == batches_.end()) batch = batches_.emplace(batch);
    batch->in_threads = in_threads;
    batch->parameters.push_back(parameter);
    batch->gradients.push_back(parameter.grad());
    return *batch;
  }

  /// A count of steps as the kernel reads it. The same tensor serves all parameters that have taken as many.
  const at::Tensor& step_tensor(std::int64_t step, const at::Device& device) {
    for (const auto& [count, tensor] : step_tensors_) {
      if (count == step && tensor.device() == device) return tensor;
    }
    const auto options = at::TensorOptions(device).dtype(at::kFloat);
    return step_tensors_.emplace_back(step, at::full({}, static_cast<double>(step), options)).second;
  }

  /// The state that an optimizer has of a parameter, or null.
  template <class State>
  static State* state_of(Optimizer& optimizer, const at::Tensor& parameter) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    return found == optimizer.state().end() ? nullptr : static_cast<State*>(found->second.get());
  }

 private:
  void step_batches(const Options& options) {
    for (FusedBatch& batch : batches_) {
      if (batch.parameters.empty()) continue;
      {
        // Without it the kernels open a parallel region for each tensor, however small.
        std::optional<c10::ParallelGuard> one_thread;
        if (!batch.in_threads) one_thread.emplace(true);
        // Nothing here is recorded for a backward pass; what autograd would add is that weights have changed.
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        step(options, batch);
      }
      for (const at::Tensor& parameter : batch.parameters) parameter.unsafeGetTensorImpl()->bump_version();
      batch.parameters.clear();
      batch.gradients.clear();
      batch.steps.clear();
      for (std::vector<at::Tensor>& state : batch.state) state.clear();
    }
  }

  std::vector<FusedBatch> batches_;  ///< those that are empty keep their memory
  std::vector<std::pair<std::int64_t, at::Tensor>> step_tensors_;
  std::vector<std::vector<at::Tensor>> left_;  ///< by group: parameters for LibTorch's own step
};

namespace {

class FusedSgdStep final : public FusedStep {
  bool add(Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    if (static_cast<const SGDOptions&>(options).momentum() == 0) {
      if (!fits(parameter, {})) return false;
      take(parameter);
      return true;
    }
    auto* state = state_of<torch::optim::SGDParamState>(optimizer, parameter);
    if (state == nullptr || !fits(parameter, {&state->momentum_buffer()})) return false;
    take(parameter).state[0].push_back(state->momentum_buffer());
    return true;
  }
  void step(const Options& options, FusedBatch& batch) override {
    const auto& sgd = static_cast<const SGDOptions&>(options);
    at::_fused_sgd_(batch.parameters, batch.gradients, batch.state[0], sgd.weight_decay(), sgd.momentum(), sgd.lr(),
                    sgd.dampening(), sgd.nesterov(), /*maximize=*/false, /*is_first_step=*/false);
  }
};

/// Adam and AdamW differ in the kernel only. `Kernel` calls at::_fused_adam_ or at::_fused_adamw_.
template <class AdamOptions, class AdamState, auto Kernel>
class FusedAdamStep final : public FusedStep {
  bool add(Optimizer& optimizer, const Options& options, at::Tensor& parameter) override {
    const bool amsgrad = static_cast<const AdamOptions&>(options).amsgrad();
    AdamState* state = state_of<AdamState>(optimizer, parameter);
    if (state == nullptr || !fits(parameter, {&state->exp_avg(), &state->exp_avg_sq()})) return false;
    if (amsgrad && !fits(parameter, {&state->max_exp_avg_sq()})) return false;
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
};

class FusedAdagradStep final : public FusedStep {
  bool add(Optimizer& optimizer, const Options&, at::Tensor& parameter) override {
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

std::shared_ptr<FusedStep> fused_step_of(const torch::optim::SGD&) { return std::make_shared<FusedSgdStep>(); }
std::shared_ptr<FusedStep> fused_step_of(const torch::optim::Adam&) {
  return std::make_shared<FusedAdamStep<AdamOptions, torch::optim::AdamParamState, kFusedAdam>>();
}
std::shared_ptr<FusedStep> fused_step_of(const torch::optim::AdamW&) {
  return std::make_shared<FusedAdamStep<AdamWOptions, torch::optim::AdamWParamState, kFusedAdamW>>();
}
std::shared_ptr<FusedStep> fused_step_of(const torch::optim::Adagrad&) { return std::make_shared<FusedAdagradStep>(); }

}  // namespace

template <class Base, class BaseOptions>
at::Tensor FusedOptimizer<Base, BaseOptions>::step(torch::optim::Optimizer::LossClosure closure) {
  if (!is_fused_) return Base::step(std::move(closure));
  if (fused_step_ == nullptr) fused_step_ = fused_step_of(*this);
  return fused_step_->run(*this, closure, [this] { Base::step(nullptr); });
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
