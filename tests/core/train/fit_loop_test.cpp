#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "support/recording.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Learns one weight w with loss = mean(w * x); the gradient of w is mean(x), so that steps can be computed by hand.
class OneWeight : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    seen.push_back(batch[0].flatten()[0].item<double>());
    const at::Tensor loss = (weight_ * batch[0]).mean();
    log("loss", loss);
    if (on_step) on_step(*this);
    return loss;
  }
  void on_train_batch_end(const StepOutput& output, const Batch&, std::int64_t) override {
    CHECK_FALSE((output.loss.defined() && output.loss.requires_grad()));
  }
  void validation_step(const Batch&, std::int64_t) override { validated_after.push_back(trainer().global_step()); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }

  double weight() const { return weight_.item<double>(); }

  std::vector<double> seen;
  std::vector<std::int64_t> validated_after;
  std::function<void(OneWeight&)> on_step;

 private:
  at::Tensor weight_ = register_parameter("weight", torch::zeros({1}));
};

/// One batch for each number, with that number in it.
std::shared_ptr<FixedLoader> numbers(const std::vector<float>& values, bool knows_size = true) {
  std::vector<Batch> batches;
  for (const float value : values) batches.push_back(Batch{{"x", torch::full({1}, value)}});
  return std::make_shared<FixedLoader>(std::move(batches), knows_size);
}

}  // namespace

TEST_CASE("options and limits say which batches make which steps") {
  struct Sized : FixedLoader {
    using FixedLoader::FixedLoader;
    std::optional<std::int64_t> batch_size() const override { return 2; }
  };
  const auto of_two = std::make_shared<Sized>(
      std::vector<Batch>{Batch{{"x", torch::tensor({1.0F, 3.0F})}}, Batch{{"x", torch::tensor({8.0F})}}});
  const auto four = numbers({1, 2, 3, 4});
  const auto norm = levin::GradientClipAlgorithm::kNorm;
  const auto value = levin::GradientClipAlgorithm::kValue;
  const auto check = [](const char* what, const TrainerOptions& options, const LoaderPtr& loader,
                        const std::vector<double>& seen, double weight, std::int64_t steps) {
    INFO(what);
    OneWeight module;
    Trainer trainer(quiet(options));
    trainer.fit(module, loader, {numbers({7, 8, 9})});
    CHECK(module.seen == seen);
    CHECK(module.weight() == Approx(weight).margin(1e-5));
    CHECK(trainer.global_step() == steps);
    if (options.fast_dev_run) CHECK(module.validated_after == std::vector<std::int64_t>{2, 2});
  };
  check("the optimizer steps on the gradient of one batch", {.max_epochs = 2}, numbers({1, 2}), {1, 2, 1, 2}, -6, 4);
  // (1 + 3) / 2, then 5 / 1: Lightning would divide the remainder by 2 as well.
  check("the mean over the batches that there were", {.max_epochs = 1, .accumulate_grad_batches = 2}, numbers({1, 3, 5}),
        {1, 3, 5}, -7, 2);
  check("the same of a loader that does not know its size", {.max_epochs = 1, .accumulate_grad_batches = 2},
        numbers({1, 3, 5}, false), {1, 3, 5}, -7, 2);
  // (1 + 3 + 8) / 3, where the mean of the two means is 5.
  check("the mean over samples of batches of a known size", {.max_epochs = 1, .accumulate_grad_batches = 2}, of_two, {1, 8}, -4,
        1);
  check("an int limits by number", {.max_epochs = 1, .limit_train_batches = 1}, four, {1}, -1, 1);
  check("a float limits by share, of all", {.max_epochs = 1, .limit_train_batches = 1.0}, four, {1, 2, 3, 4}, -10, 4);
  check("a float limits by share", {.max_epochs = 1, .limit_train_batches = 0.5}, four, {1, 2}, -3, 2);
  check("no batch", {.max_epochs = 1, .limit_train_batches = 0}, four, {}, 0, 0);
  check("a limit of a loader that does not know its size", {.max_epochs = 1, .limit_train_batches = 3},
        numbers({1, 2, 3, 4}, false), {1, 2, 3}, -6, 3);
  check("max_steps in the middle of an epoch", {.max_epochs = -1, .max_steps = 5}, numbers({1, 2}), {1, 2, 1, 2, 1}, -7, 5);
  check("clipped by norm", {.max_epochs = 1, .gradient_clip_val = 2.0, .gradient_clip_algorithm = norm}, numbers({10, 1}),
        {10, 1}, -3, 2);
  check("clipped by value", {.max_epochs = 1, .gradient_clip_val = 2.0, .gradient_clip_algorithm = value}, numbers({10, 1}),
        {10, 1}, -3, 2);
  check("0 clips to no norm", {.max_epochs = 1, .gradient_clip_val = 0.0, .gradient_clip_algorithm = norm}, numbers({10, 1}),
        {10, 1}, -11, 2);
  check("0 clips to no value", {.max_epochs = 1, .gradient_clip_val = 0.0, .gradient_clip_algorithm = value}, numbers({10, 1}),
        {10, 1}, -11, 2);
  check("fast_dev_run", {.max_epochs = 7, .fast_dev_run = 2}, four, {1, 2}, -3, 2);
}

TEST_CASE("a module may leave out the update of a batch, or a batch and the rest of its epoch") {
  struct Leaves : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      const StepOutput output = OneWeight::training_step(batch, batch_idx);
      return batch_idx == 1 ? StepOutput() : output;
    }
    void on_train_batch_start(const Batch&, std::int64_t batch_idx) override {
      if (skips && batch_idx == 1) trainer().skip_epoch();
    }
    bool skips = false;
  };
  Leaves without_loss;
  Trainer(quiet_options(1)).fit(without_loss, numbers({1, 100, 2}));
  CHECK(without_loss.weight() == Approx(-3.0));
  Leaves skipping;
  skipping.skips = true;
  Trainer(quiet_options(2)).fit(skipping, numbers({1, 2, 3}), {numbers({7})});
  CHECK(skipping.seen == std::vector<double>{1, 1});
  CHECK(skipping.validated_after.empty());
}

TEST_CASE("manual optimization counts the module's own steps, and a validation leaves gradients that wait for more batches") {
  struct Manual : OneWeight {
    explicit Manual(bool waits) : waits_(waits) { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      manual_backward(OneWeight::training_step(batch, batch_idx).loss);
      if (waits_ && batch_idx % 2 == 0) return {};
      step_optimizer();
      if (!waits_) step_optimizer();
      optimizer().zero_grad();
      return {};
    }
    bool waits_;
  };
  Manual twice(false);
  Trainer trainer(quiet_options(1));
  trainer.fit(twice, numbers({1, 2}));
  CHECK(twice.weight() == Approx(-6.0));
  CHECK(trainer.global_step() == 4);
  CHECK(trainer.current_epoch() == 1);
  CHECK(trainer.num_training_batches() == 2);
  Manual waiting(true);
  Trainer(quiet({.max_epochs = 1, .val_check_interval = Limit(1)})).fit(waiting, numbers({1, 2, 4, 8}), {numbers({1})});
  CHECK(waiting.validated_after == std::vector<std::int64_t>{0, 1, 1, 2});
  CHECK(waiting.weight() == Approx(-15.0));
}

TEST_CASE("under manual optimization a gradient_clip_val of 0 asks for nothing, and clip_gradients() with 0 clips nothing") {
  struct Manual : OneWeight {
    Manual() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      manual_backward(OneWeight::training_step(batch, batch_idx).loss);
      clip_gradients(optimizer(), 0.0);
      clip_gradients(optimizer(), 0.0, levin::GradientClipAlgorithm::kValue);
      step_optimizer();
      optimizer().zero_grad();
      return {};
    }
  };
  Manual module;
  Trainer(quiet({.max_epochs = 1, .gradient_clip_val = 0.0})).fit(module, numbers({10, 1}));
  CHECK(module.weight() == Approx(-11.0));
  Manual clipped;
  CHECK_THROWS_WITH(Trainer(quiet({.max_epochs = 1, .gradient_clip_val = 2.0})).fit(clipped, numbers({10, 1})),
                    Catch::Contains("call clip_gradients"));
}

TEST_CASE("what a module must not do is an error that says where, and what to do") {
  struct Two : OneWeight {
    OptimizerSetups configure_optimizers() override {
      auto optimizer = std::make_shared<torch::optim::SGD>(parameters(), 1.0);
      return std::vector<OptimizerSetup>{{optimizer, {}}, {optimizer, {}}};
    }
  } two;
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).fit(two, numbers({1})), Catch::Contains("set_automatic_optimization(false)"));
  struct LogsInSetup : OneWeight {
    void setup(Stage) override { log("early", 1.0); }
  } early;
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).fit(early, numbers({1})),
                    Catch::Contains("setup") && Catch::Contains("early") && Catch::Contains("fit_loop_test.cpp"));
}

TEST_CASE("a part that is frozen before fit() stays in evaluation mode while the rest trains") {
  struct Transfer final : Module {
    Transfer() { levin::freeze(*backbone_); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      modes += backbone_->is_training() || !head_->is_training() ? 'x' : '.';
      return head_->forward(backbone_->forward(batch[0])).mean();
    }
    void validation_step(const Batch&, std::int64_t) override {}
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    torch::nn::BatchNorm1d backbone_ = register_module("backbone", torch::nn::BatchNorm1d(2));
    torch::nn::Linear head_ = register_module("head", torch::nn::Linear(2, 1));
    std::string modes;
  } module;
  const at::Tensor before = module.head_->weight.detach().clone();
  TrainerOptions options = quiet_options(2);
  Trainer(options).fit(module, FixedLoader::of_rows(2, 3), {FixedLoader::of_rows(1, 3)});
  CHECK(module.modes == "....");
  CHECK(module.backbone_->num_batches_tracked.item<std::int64_t>() == 0);
  CHECK_FALSE(at::equal(module.head_->weight, before));
  // All of a module that was left in evaluation mode trains.
  module.eval();
  Trainer(options).fit(module, FixedLoader::of_rows(1, 3));
  CHECK(module.is_training());
}

TEST_CASE("loaders that are not passed are the module's own") {
  class WithData final : public OneWeight {
   public:
    LoaderPtr train_dataloader() override { return numbers({1, 2}); }
    LoaderList val_dataloaders() override { return {numbers({7})}; }
  } module;
  Trainer trainer(quiet_options(1));
  const bool passes_training_data = GENERATE(true, false);
  if (passes_training_data) {
    trainer.fit(module, numbers({5}));
  } else {
    trainer.fit(module);
  }
  CHECK(module.seen == (passes_training_data ? std::vector<double>{5} : std::vector<double>{1, 2}));
  CHECK(module.validated_after == std::vector<std::int64_t>{passes_training_data ? 1 : 2});
  CHECK(trainer.validate(module).size() == 1);
  CHECK(module.validated_after.size() == 2);
  CHECK(trainer.validate(module, {numbers({7}), numbers({8})}).size() == 2);
  CHECK(trainer.validate(module, std::vector<LoaderPtr>{numbers({7}), numbers({8}), numbers({9})}).size() == 3);
  CHECK_THROWS_WITH(trainer.test(module), Catch::Contains("test needs data"));
}

TEST_CASE("validation runs at val_check_interval and every n-th epoch") {
  const auto validated = [](std::optional<CheckInterval> interval, std::optional<std::int64_t> every_n_epochs) {
    OneWeight module;
    Trainer trainer(quiet({.max_epochs = 2, .val_check_interval = interval, .check_val_every_n_epoch = every_n_epochs}));
    trainer.fit(module, numbers({1, 2, 3, 4}), {numbers({7})});
    return module.validated_after;
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(validated(std::nullopt, 1) == Steps{4, 8});
  CHECK(validated(Limit(0.5), 1) == Steps{2, 4, 6, 8});
  CHECK(validated(Limit(3), 1) == Steps{3, 7});
  CHECK(validated(Limit(3), std::nullopt) == Steps{3, 6});
  CHECK(validated(std::nullopt, 2) == Steps{8});
  // By time, not by the end of an epoch: each batch takes longer than no time, and none takes a day.
  CHECK(validated(std::chrono::seconds(0), 1) == Steps{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(validated(std::chrono::seconds(0), 2) == Steps{5, 6, 7, 8});
  CHECK(validated(std::chrono::seconds(0), std::nullopt) == Steps{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(validated(std::chrono::hours(24), 1) == Steps{});
}

TEST_CASE("stop() ends training after the step in which it was called, after validation, unless minimums are not met") {
  const auto check = [](const TrainerOptions& options, std::int64_t steps, const std::vector<std::int64_t>& validated_after) {
    OneWeight module;
    module.on_step = [](OneWeight& self) {
      if (self.trainer().global_step() == 1) self.trainer().stop();
    };
    Trainer trainer(quiet(options));
    trainer.fit(module, numbers({1, 2, 3, 4}), {numbers({7})});
    CHECK(trainer.global_step() == steps);
    CHECK(module.validated_after == validated_after);
  };
  check({.max_epochs = 3}, 2, {2});
  check({.max_epochs = 3, .min_steps = 3}, 4, {4});  // min_steps sets min_epochs to 1, as in Lightning
  check({.max_epochs = 3, .min_epochs = 2}, 8, {4, 8});
}

TEST_CASE("toggled optimizers take turns, and a turn that is not ended or begun is an error") {
  struct Toggled : OneWeight {
    Toggled() {
      other = register_parameter("other", torch::ones({1}));
      set_automatic_optimization(false);
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      act(*this);
      return (other * batch[0]).mean();
    }
    OptimizerSetups configure_optimizers() override {
      return {std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{parameters()[0]}, 1.0),
              std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{other}, 1.0)};
    }
    at::Tensor other;
    std::function<void(Toggled&)> act;
  };
  const auto [act, message] = GENERATE(table<std::function<void(Toggled&)>, std::string>({
      {[](Toggled& module) { module.toggle_optimizer(1), module.toggle_optimizer(0); },
       "optimizer 1 is toggled. Call untoggle_optimizer(1) first"},
      {[](Toggled& module) { module.untoggle_optimizer(1); }, "untoggle_optimizer(1): this optimizer is not toggled"},
      {[](Toggled& module) { module.toggle_optimizer(1), module.untoggle_optimizer(0); },
       "untoggle_optimizer(0): this optimizer is not toggled"},
      {[](Toggled& module) { module.toggle_optimizer(1); }, "training_step ended while optimizer 1 was toggled"},
      {[](Toggled& module) { module.toggle_optimizer(2); }, "configure_optimizers returned 2 optimizers"},
  }));
  Toggled module;
  module.act = act;
  Trainer trainer(quiet_options());
  CHECK_THROWS_WITH(trainer.fit(module, numbers({1})), Catch::Contains(message));
  for (const at::Tensor& parameter : module.parameters()) CHECK(parameter.requires_grad());
}

TEST_CASE("a module that goes to another Trainer is let go by the first one, which may outlive it") {
  TrainerOptions options = quiet_options(1);
  Trainer first(options);
  {
    OneWeight module;
    first.fit(module, numbers({1}));
    Trainer(options).fit(module, numbers({1}));
    CHECK_THROWS_AS(first.save_checkpoint("nowhere.ckpt"), MisuseError);
  }
  OneWeight nested;
  nested.on_step = [&](OneWeight& module) { Trainer(options).fit(module, numbers({1})); };
  CHECK_THROWS_WITH(Trainer(options).fit(nested, numbers({1})), Catch::Contains("already running in another Trainer"));
}

TEST_CASE("numbers of hosts, restarts and devices that no run has are refused, and not cut off") {
  constexpr std::int64_t kHuge = (std::int64_t{1} << 32) + 1;
  for (std::int64_t TrainerOptions::*option : {&TrainerOptions::num_nodes, &TrainerOptions::max_restarts}) {
    TrainerOptions options = quiet_options();
    options.*option = kHuge;
    CHECK_THROWS_AS(Trainer(options), ConfigError);
  }
  TrainerOptions options = quiet({.max_restarts = 1, .min_devices = kHuge});
  CHECK_THROWS_AS(Trainer(options), ConfigError);
}
