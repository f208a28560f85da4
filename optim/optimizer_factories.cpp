#include "levin/optim/optimizer_factories.h"

#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>

#include "levin/optim/optimizers.h"

namespace levin {

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

}  // namespace

void add_optimizer_factories(Registry<OptimizerFactory>& registry) {
  registry.add<OptimizerFactoryOf<Adadelta>>("Adadelta", "Steps in the units of the parameters");
  registry.add<OptimizerFactoryOf<Adafactor>>("Adafactor", "Adaptive steps with little memory");
  registry.add<Factory<AdagradFactoryOptions>>("Adagrad", "Adaptive gradients");
  registry.add<Factory<AdamFactoryOptions>>("Adam", "Adaptive moments");
  registry.add<OptimizerFactoryOf<Adamax>>("Adamax", "Adam with the infinity norm");
  registry.add<OptimizerFactoryOf<ASGD>>("ASGD", "Averaged stochastic gradient descent");
  registry.add<Factory<AdamWFactoryOptions>>("AdamW", "Adam with decoupled weight decay");
  registry.add<Factory<LbfgsFactoryOptions>>("LBFGS", "Limited-memory BFGS; needs a closure");
  registry.add<OptimizerFactoryOf<Lion>>("Lion", "Steps by the sign of a momentum");
  registry.add<OptimizerFactoryOf<Muon>>("Muon", "Orthogonalized momentum; for matrices only");
  registry.add<OptimizerFactoryOf<NAdam>>("NAdam", "Adam with Nesterov's momentum");
  registry.add<OptimizerFactoryOf<RAdam>>("RAdam", "Adam whose rate warms up by itself");
  registry.add<Factory<RmspropFactoryOptions>>("RMSprop", "Root mean square propagation");
  registry.add<OptimizerFactoryOf<Rprop>>("Rprop", "Resilient backpropagation; for whole datasets as one batch");
  registry.add<Factory<SgdFactoryOptions>>("SGD", "Stochastic gradient descent");
}

}  // namespace levin
