// A user's program that trains a small network under a strategy of its choice, saves it and resumes. Run by sharded_ranks_test.
// Arguments: scenario=… ranks=… folder=… and those below, as name=value.
#include <signal.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "levin/core/base/error.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/optimizers/described_optimizer.h"
#include "levin/core/optimizers/optimizer_factory.h"

namespace levin::test::sharded_program {

namespace {

struct OddOptions {
  double lr = 0.01;
  static void declare(OptionList<OddOptions>& options) { options.add("lr", &OddOptions::lr, "Learning rate"); }
};

/// One number of each kind, and a tensor.
struct OddState {
  at::Tensor last = {};
  double infinite = 0;
  double negative = 0;
  double none = 0;
  double small = 0;
  std::int64_t steps = 0;
  StateFields fields() {
    return {{"last", &last}, {"infinite", &infinite}, {"negative", &negative},
            {"none", &none}, {"small", &small},       {"steps", &steps}};
  }
  bool is_whole() const { return infinite == HUGE_VAL && negative == -HUGE_VAL && std::isnan(none) && small == 1.0 / 3; }
};

/// Fails when a step begins with another state than that at the end of the last step.
class Odd final : public OptimizerOf<OddOptions, OddState> {
 public:
  using OptimizerOf::OptimizerOf;

 private:
  State first_state(const at::Tensor& parameter, const Options&) const override {
    return {torch::zeros_like(parameter), HUGE_VAL, -HUGE_VAL, std::nan(""), 1.0 / 3, 0};
  }
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override {
    if (!state.is_whole()) throw MisuseError("the optimizer's state is not what it was");
    ++state.steps;
    parameter.sub_(gradient, options.lr);
    state.last.copy_(gradient);
  }
};

/// optimizer=; two groups with different rates; odd=tied, sparse, complex: a weight of that kind; unused=1: every second
/// batch leaves `spare` out; change=freeze, add: in the second epoch; by_hand=1: manual optimization.
class Network final : public Module {
 public:
  explicit Network(const Settings& settings) : settings_(settings) {
    torch::manual_seed(11);
    first_ = register_module("first", torch::nn::Linear(3, 7));
    second_ = register_module("second", torch::nn::Linear(7, 4));
    spare_ = register_module("spare", torch::nn::Linear(7, 4));
    last_ = register_module("last", torch::nn::Linear(4, 1));
    if (settings.text("odd") == "tied") register_parameter("twin", second_->weight);
    if (settings.text("odd") == "sparse") {
      table_ = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 7).sparse(true)));
    }
    if (settings.text("odd") == "complex") complex_ = register_parameter("complex", torch::randn({7}, torch::kComplexFloat));
    set_automatic_optimization(settings.number("by_hand") != 1);
  }

  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    const at::Tensor x = batch[0].view({-1, 1}) / 5;
    at::Tensor hidden = torch::tanh(first_->forward(torch::cat({x, x * x, torch::ones_like(x)}, 1)));
    if (added_.defined()) hidden = hidden * added_;
    if (table_) hidden = hidden + table_->forward(batch[0].to(torch::kLong).view({-1}) % 9);
    if (complex_.defined()) hidden = hidden + torch::real(hidden * complex_ * complex_);
    const bool leaves_out = settings_.number("unused") == 1 && batch_idx % 2 == 1;
    const at::Tensor inner = leaves_out ? second_->forward(hidden) : second_->forward(hidden) + spare_->forward(hidden);
    const at::Tensor loss = (last_->forward(torch::tanh(inner)) - torch::sin(x * 3)).square().mean();
    if (settings_.number("fails") == 1 && trainer().global_step() == 3) throw std::runtime_error("the sensor returned garbage");
    if (automatic_optimization()) return loss;
    manual_backward(loss);
    step_optimizer();
    optimizer().zero_grad();
    return {};
  }
  void on_train_epoch_start() override {
    if (current_epoch() != 1) return;
    if (settings_.text("change") == "freeze") first_->weight.requires_grad_(false);
    if (settings_.text("change") == "add") {
      added_ = register_parameter("added", torch::full({7}, 1.5f));
      optimizer().add_param_group({{added_}});
    }
  }
  void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override {
    if (stops) trainer().stop("this fit has stepped once");
    if (settings_.number("signal") == 1 && trainer().global_step() == 5 && trainer().rank() == 0) raise(SIGTERM);
  }

  OptimizerSetups configure_optimizers() override {
    const std::string name = settings_.text("optimizer", "Adam");
    namespace optim = torch::optim;
    if (name == "SGD") return make<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9));
    if (name == "Adam") return make<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true));
    if (name == "AdamW") return make<optim::AdamW>(optim::AdamWOptions(0.01));
    if (name == "RMSprop") return make<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
    if (name == "Adagrad") return make<optim::Adagrad>(optim::AdagradOptions(0.05));
    if (name == "Odd") return std::make_shared<Odd>(parameters(), OddOptions());
    if (name == "LBFGS") return std::make_shared<optim::LBFGS>(parameters(), optim::LBFGSOptions(0.5).max_iter(4));
    if (name == "line search") {
      const auto options = optim::LBFGSOptions(1).max_iter(3).line_search_fn("strong_wolfe");
      return std::make_shared<optim::LBFGS>(parameters(), options);
    }
    const Value init_args(Value::Map{{"lr", 0.02}});
    return Registry<OptimizerFactory>::instance().make(Value(name), init_args)->make(parameters());
  }

  bool stops = false;  ///< after its first step

 private:
  template <class Optimizer, class Options>
  OptimizerSetups make(const Options& options) {
    std::vector<at::Tensor> rest = second_->parameters();
    if (settings_.text("odd") == "tied") rest.push_back(second_->weight);
    if (table_) rest.push_back(table_->weight);
    if (complex_.defined()) rest.push_back(complex_);
    for (const auto& part : {spare_, last_}) {
      for (const at::Tensor& parameter : part->parameters()) rest.push_back(parameter);
    }
    auto slow = std::make_unique<Options>(options);
    slow->lr(options.lr() / 2);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(first_->parameters(), std::move(slow));
    groups.emplace_back(rest, std::make_unique<Options>(options));
    return std::make_shared<Optimizer>(groups, options);
  }

  const Settings& settings_;
  torch::nn::Linear first_{nullptr}, second_{nullptr}, spare_{nullptr}, last_{nullptr};
  torch::nn::Embedding table_{nullptr};
  at::Tensor complex_;
  at::Tensor added_;
};

/// The number of parameter elements for which an optimizer has state here.
std::int64_t elements_of_state(const torch::optim::Optimizer& optimizer) {
  std::int64_t elements = 0;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (optimizer.state().count(parameter.unsafeGetTensorImpl()) > 0) elements += parameter.numel();
    }
  }
  return elements;
}

/// Batches of so many ranks in one.
std::shared_ptr<FixedLoader> merged(int ranks, int count, double first) {
  std::vector<Batch> batches;
  for (int index = 0; index < count; ++index) {
    batches.push_back(Batch{{"x", torch::arange(ranks, torch::kFloat) * 4 + (first + index)}});
  }
  return std::make_shared<FixedLoader>(std::move(batches), true);
}

/// strategy=; fits=: so many with one Trainer, each of a new network; clip=, accumulate=, uneven=1: rank 1 has fewer
/// batches; epochs=; double=1: numbers of 64 bits; save= and resume=: a file in the folder; on_exception=1: saves with
/// OnExceptionCheckpoint; power=1: with PowerSGD; views=1: with gradient_as_bucket_view; merged=: one process has the batches
/// of so many ranks.
void fit(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = settings.number("epochs", 3);
  if (settings.number("double") == 1) options.precision = PrecisionFormat::kFloat64;
  options.accumulate_grad_batches = settings.number("accumulate", 1);
  if (settings.has("clip")) options.gradient_clip_val = std::stod(settings.text("clip"));
  if (settings.has("strategy")) {
    Value arguments(Value::Map{});
    if (settings.number("unused") == 1) arguments["find_unused_parameters"] = true;
    if (settings.number("views") == 1) arguments["gradient_as_bucket_view"] = true;
    if (settings.number("power") == 1) {
      arguments["comm_hook"] = "power_sgd";
      arguments["start_power_sgd_iter"] = 2;
      arguments["min_compression_rate"] = 0.1;
    }
    options.strategy = {Value(settings.text("strategy")), arguments};
  }
  const std::string folder = settings.text("folder") + "/";
  if (settings.number("on_exception") == 1) {
    options.enable_checkpointing = std::nullopt;
    Value saving(Value::Map{{"dirpath", Value(settings.text("folder"))}});
    options.callbacks = {Component<Callback>(Value("OnExceptionCheckpoint"), saving)};
  }
  Trainer trainer(options);
  Report report(settings.text("folder"), trainer.rank());
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>> earlier;
  for (int fit = 1; fit < settings.number("fits", 1); ++fit) {
    Network first(settings);
    first.stops = true;
    trainer.fit(first, numbers(4, 4.0 * trainer.rank()));
    report.add("share_of_first", elements_of_state(*trainer.optimizers().at(0)));
    for (const at::Tensor& parameter : first.parameters()) earlier.emplace_back(parameter.getIntrusivePtr());
  }
  Network module(settings);
  RunOptions run;
  if (settings.has("resume")) run.ckpt_path = folder + settings.text("resume");
  const int batches = settings.number("uneven") == 1 && trainer.rank() == 1 ? 3 : 4;
  const double first = settings.number("first", 0) + 4.0 * trainer.rank();
  trainer.fit(module, settings.has("merged") ? merged(settings.number("merged"), batches, first) : numbers(batches, first), {},
              run);
  if (settings.has("save")) trainer.save_checkpoint(folder + settings.text("save"));
  report.add("weights", numbers_text(module.parameters()));
  report.add("states", trainer.optimizers().at(0)->state().size());
  report.add("share", elements_of_state(*trainer.optimizers().at(0)));
  report.add("left_of_first",
             std::count_if(earlier.begin(), earlier.end(), [](const auto& tensor) { return !tensor.expired(); }));
}

const RankProgram program("sharded", fit);

}  // namespace

}  // namespace levin::test::sharded_program
