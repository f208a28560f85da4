// A user's program whose hooks freeze, unfreeze, add and replace parameters while it trains. Run by parameters_ranks_test.
// Arguments: scenario=… ranks=… folder=… and those below, as name=value.
#include <torch/torch.h>

#include <functional>

#include "distributed/dataset_loader.h"
#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"
#include "distributed/tensor_text.h"
#include "levin/callbacks/gradient_sync_check.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/base/error.h"
#include "levin/core/callback.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "support/mean_gradients.h"
#include "support/recording.h"

namespace levin::test::parameters_program {

namespace {

/// Two weights, the second of which is frozen at first. A step moves each that is trained by the mean of the batch.
class TwoWeights final : public RecordingModule {
 public:
  explicit TwoWeights(HookTrace& trace, bool manual) : RecordingModule(trace) {
    unregister_module("layer");
    first_ = register_parameter("first", torch::zeros({1}));
    second_ = register_parameter("second", torch::zeros({1}), /*requires_grad=*/false);
    set_automatic_optimization(!manual);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    trace_.add("M.training_step");
    at::Tensor loss = ((first_ + second_) * batch[0]).mean();
    if (third_.defined()) loss = loss + (third_ * batch[0]).mean();
    if (automatic_optimization()) return loss;
    manual_backward(loss);
    step_optimizer();
    optimizer().zero_grad();
    return {};
  }
  void validation_step(const Batch&, std::int64_t) override { trace_.add("M.validation_step"); }
  OptimizerSetups make_optimizers() override {
    return std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{first_}, torch::optim::SGDOptions(1).momentum(0.5));
  }

  void change(const std::string& what) {
    torch::optim::Optimizer& all = *trainer().optimizers().at(0);
    auto& groups = all.param_groups();
    if (what == "unfreeze") {
      second_.requires_grad_(true);
      all.add_param_group({{second_}});
    } else if (what == "freeze") {
      first_.requires_grad_(false);
      second_.requires_grad_(true);
      groups[0].params() = {second_};
    } else if (what == "freeze_alone") {
      first_.requires_grad_(false);  // steps on with the gradients that it has
      second_.requires_grad_(true);
      all.add_param_group({{second_}});
    } else if (what == "add") {
      third_ = register_parameter("third", torch::full({1}, 7.0f + static_cast<float>(trainer().rank())));
      all.add_param_group({{third_}});
    } else if (what == "replace") {
      first_ = parameters_["first"] = torch::full({1}, 3.0f + static_cast<float>(trainer().rank())).requires_grad_(true);
      groups[0].params() = {first_};
    } else {
      all.add_param_group({{second_}});
    }
  }
  std::string weights() const { return numbers_text({first_, second_, third_.defined() ? third_ : torch::zeros({1})}); }

 private:
  at::Tensor first_;
  at::Tensor second_;
  at::Tensor third_;
};

const std::vector<std::string> kHooks = {
    "on_fit_start",       "on_train_start",      "on_train_epoch_start",     "on_train_batch_start",
    "training_step",      "on_before_zero_grad", "optimizer_zero_grad",      "on_before_backward",
    "backward",           "on_after_backward",   "on_before_optimizer_step", "configure_gradient_clipping",
    "on_train_batch_end", "on_validation_start", "on_validation_batch_end",  "on_validation_end",
    "on_train_epoch_end"};

/// In each hook: change=, manual=1, accumulate=, and rank=, the only one that does it.
void in_every_hook(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.strategy = settings.text("strategy", "auto");
  options.max_epochs = 3;
  options.accumulate_grad_batches = settings.number("accumulate", 1);
  Trainer trainer(options);
  Report report(settings.text("folder"), trainer.rank());
  for (const std::string& hook : kHooks) {
    if (settings.has("hook") && settings.text("hook") != hook) continue;
    Trainer another(options);
    HookTrace trace;
    TwoWeights module(trace, settings.number("manual") == 1);
    bool due = true;
    trace.on_entry = [&](const std::string& entry) {
      if (entry != "M." + hook) return;
      const bool mine = !settings.has("rank") || settings.number("rank") == trainer.rank();
      const bool early = hook == "on_fit_start" || hook == "on_train_start";
      if (!due || !mine ||
          (!early && (another.current_epoch() != 1 || another.total_batch_idx() < (hook == "on_train_epoch_start" ? 4 : 5))))
        return;
      due = false;
      module.change(settings.text("change"));
    };
    // The mean over ranks is that of one process whose numbers begin with 6.
    const int ranks = settings.number("ranks");
    const double first = ranks == 1 ? 6 : trainer.rank() * 12.0 / (ranks - 1);
    another.fit(module, numbers(4, first), {numbers(2, 1)});
    report.add(hook, module.weights());
  }
}

/// Two weights with a loss and an optimizer each, as in a GAN; the other weight may be frozen during a turn.
class TwoLosses final : public Module {
 public:
  TwoLosses(std::string frozen, bool tied) : frozen_(std::move(frozen)), tied_(tied) {
    first_ = register_parameter("first", torch::full({1}, 2.0f));
    if (tied_) register_parameter("twin", first_);
    second_ = register_parameter("second", torch::ones({1}));
    set_automatic_optimization(false);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    take_step(0, second_, frozen_ != "none", [&] { return (first_ * second_ * batch[0] / 100).mean(); });
    take_step(1, first_, frozen_ == "both", [&] { return (second_ * batch[0] / 10).mean(); });
    return {};
  }
  OptimizerSetups configure_optimizers() override {
    const auto options = torch::optim::SGDOptions(1).momentum(0.5);
    const auto of = [&](const at::Tensor& weight) {
      return std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>(tied_ ? 2 : 1, weight), options);
    };
    return {of(first_), of(second_)};
  }
  std::string weights() const { return numbers_text({first_, second_}); }

 private:
  void take_step(std::size_t index, at::Tensor& other, bool freezes, const std::function<at::Tensor()>& loss) {
    optimizer(index).zero_grad();
    if (frozen_ == "toggled") {
      const bool had_gradient = other.grad().defined();
      toggle_optimizer(index);
      if (other.requires_grad()) throw std::logic_error("the other optimizer's weight requires a gradient");
      manual_backward(loss());
      step_optimizer(index);
      untoggle_optimizer(index);
      if (!other.requires_grad()) throw std::logic_error("the other optimizer's weight is left frozen");
      if (other.grad().defined() != had_gradient) throw std::logic_error("the other optimizer's weight has got a gradient");
      return;
    }
    other.requires_grad_(!freezes);
    manual_backward(loss());
    other.requires_grad_(true);
    step_optimizer(index);
  }

  std::string frozen_;
  bool tied_;
  at::Tensor first_;
  at::Tensor second_;
};

/// ddp that counts how often ranks agree on other parameters.
class CountedChanges final : public MeanGradients {
 public:
  void parameters_changed(Module& module, bool after_reduction) override {
    ++changes;
    MeanGradients::parameters_changed(module, after_reduction);
  }
  int changes = 0;
};

/// frozen=none, one or both: weights that are frozen while the other's loss is computed; toggled: with toggle_optimizer().
/// unused=: ddp, 1 with find_unused_parameters. counted=1: with a strategy that counts changes. tied=1: a weight has two names,
/// and each weight is twice in its optimizer.
void two_losses(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.max_epochs = 2;
  const Value find_unused(Value::Map{{"find_unused_parameters", Value(settings.number("unused", 0) == 1)}});
  if (settings.has("unused")) options.strategy = {Value("ddp"), find_unused};
  const auto counted = std::make_shared<CountedChanges>();
  if (settings.number("counted") == 1) options.strategy = counted;
  Trainer trainer(options);
  Report report(settings.text("folder"), trainer.rank());
  TwoLosses module(settings.text("frozen"), settings.number("tied") == 1);
  const int ranks = settings.number("ranks");
  trainer.fit(module, numbers(4, ranks == 1 ? 6 : trainer.rank() * 12.0 / (ranks - 1)));
  report.add("weights", module.weights());
  report.add("changes", counted->changes);
}

/// Weights that a callback looks at. what=rates: rank 1 steps with another rate from the third step on; local: rank 1 has an
/// extra backward pass in the third step; no_gradient: rank 2 removes its gradient; unused: a weight that no loss uses.
class Watched final : public Module {
 public:
  explicit Watched(std::string what) : what_(std::move(what)) {
    first_ = register_parameter("first", torch::full({3}, 2.0f));
    second_ = register_parameter("second", torch::ones({1}));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = (first_ * batch[0] / 100).mean();
    return what_ == "unused" ? loss : loss + (second_ * batch[0]).mean();
  }
  void on_after_backward() override {
    if (what_ == "local" && trainer().rank() == 1 && global_step() == 2) (first_ * 0.5).sum().backward();
    if (what_ == "no_gradient" && trainer().rank() == 2 && global_step() == 2) second_.mutable_grad().reset();
    if (what_ == "rates" && trainer().rank() == 1 && global_step() == 2) set_lr(optimizer().param_groups()[0], 2);
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }

 private:
  std::string what_;
  at::Tensor first_;
  at::Tensor second_;
};

/// on=: on_difference.
void watched(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.strategy = {Value("ddp"), Value(Value::Map{{"find_unused_parameters", Value(true)}})};
  const Value check(Value::Map{{"every_n_steps", Value(1)}, {"on_difference", Value(settings.text("on", "error"))}});
  options.callbacks = {Component<Callback>(Value("GradientSyncCheck"), check)};
  Trainer trainer(options);
  Report report(settings.text("folder"), trainer.rank());
  Watched module(settings.text("what"));
  trainer.fit(module, numbers(5, trainer.rank()));
  report.add("steps", trainer.global_step());
}

/// A backbone and a head, which a callback trains later or prunes.
class TwoParts final : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return (head_->forward(backbone_->forward(batch["x"]).tanh()) - batch["x"].sum(1, true)).pow(2).mean();
  }
  OptimizerSetups configure_optimizers() override {
    std::vector<at::Tensor> trained = parameters();
    std::erase_if(trained, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
    return std::make_shared<torch::optim::SGD>(trained, torch::optim::SGDOptions(0.2).momentum(0.5));
  }

 private:
  torch::nn::Linear backbone_ = register_module("backbone", torch::nn::Linear(2, 30));
  torch::nn::Linear head_ = register_module("head", torch::nn::Linear(30, 1));
};

/// callback= the class; saves `<ranks>_<step>.ckpt` after steps 3 and 6; ckpt= resumes.
void changed_by_callback(const Settings& settings) {
  const std::filesystem::path folder = settings.text("folder");
  TrainerOptions options = rank_options(settings.number("ranks"), folder);
  options.max_epochs = 3;
  options.use_distributed_sampler = true;
  options.uneven = Uneven::kKeep;
  options.gradient_clip_val = 0.5;
  if (settings.text("strategy", "") == "ddp") {
    options.strategy = {Value("ddp"), Value(Value::Map{{"bucket_cap_mb", 0.001}})};
  } else {
    options.strategy = settings.text("strategy", "auto");
  }
  const bool prunes = settings.text("callback") == "ModelPruning";
  const Value arguments = prunes ? Value(Value::Map{{"pruning_fn", "random_unstructured"}, {"amount", 0.3}})
                                 : Value(Value::Map{{"unfreeze_backbone_at_epoch", 1}, {"backbone_initial_lr", 0.1}});
  const auto save = [&](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) {
    const std::int64_t step = trainer.global_step();
    const std::string file = std::to_string(trainer.world_size()) + "_" + std::to_string(step) + ".ckpt";
    if ((step == 3 || step == 6) && !settings.has("ckpt")) trainer.save_checkpoint(folder / file);
  };
  options.callbacks = {{Value(settings.text("callback")), arguments},
                       Component<Callback>("EMAWeightAveraging", Value(Value::Map{{"decay", 0.5}})),
                       LambdaCallback({.on_train_batch_end = save})};
  Trainer trainer(options);
  Report report(folder, trainer.rank());
  torch::manual_seed(settings.has("ckpt") ? 2 : 1);
  TwoParts module;
  // In the last step of an epoch rank 1 has no batch.
  const at::Tensor rows = torch::arange(14, torch::kFloat).view({7, 2}).sin();
  RunOptions run;
  if (settings.has("ckpt")) run.ckpt_path = (folder / settings.text("ckpt")).string();
  trainer.fit(module, dataset_loader(rows, {.batch_size = 2 / settings.number("ranks")}), {}, run);
  std::vector<at::Tensor> sums = {torch::tensor(get_lrs(*trainer.optimizers()[0]).back(), torch::kDouble)};
  for (const at::Tensor& parameter : module.parameters()) sums.insert(sums.end(), {parameter.sum(), parameter.abs().sum()});
  report.add("weights", numbers_text(sums));
}

const RankProgram program("parameters", {{"in_every_hook", in_every_hook},
                                         {"two_losses", two_losses},
                                         {"watched", watched},
                                         {"changed_by_callback", changed_by_callback}});

}  // namespace

}  // namespace levin::test::parameters_program
