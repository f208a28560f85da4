#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "support/recording.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Learns one weight w with loss = mean(w * x); the gradient of w is mean(x), so that steps can be computed by hand.
class OneWeight : public Module {
 public:
  OneWeight() : weight_(register_parameter("weight", torch::zeros({1}))) {}

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    seen.push_back(batch[0].flatten()[0].item<double>());
    const at::Tensor loss = (weight_ * batch[0]).mean();
    log("loss", loss);
    if (on_step) on_step(*this);
    return loss;
  }
  void validation_step(const Batch&, std::int64_t) override { validated_after.push_back(trainer().global_step()); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }

  double weight() const { return weight_.item<double>(); }

  std::vector<double> seen;
  std::vector<std::int64_t> validated_after;
  std::function<void(OneWeight&)> on_step;

 private:
  at::Tensor weight_;
};

/// One batch for each number, with that number in it.
std::shared_ptr<FixedLoader> numbers(const std::vector<float>& values, bool knows_size = true) {
  std::vector<Batch> batches;
  for (const float value : values) batches.push_back(Batch{{"x", torch::full({1}, value)}});
  return std::make_shared<FixedLoader>(std::move(batches), knows_size);
}

}  // namespace

TEST_CASE("a step is the optimizer's step on the gradient of one batch") {
  OneWeight module;
  Trainer trainer(quiet_options(2));
  trainer.fit(module, numbers({1, 2}));
  CHECK(module.weight() == Approx(-6.0));
  CHECK(trainer.global_step() == 4);
  CHECK(trainer.current_epoch() == 2);
  CHECK(trainer.num_training_batches() == 2);
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
  CHECK_THROWS_WITH(trainer.test(module), Catch::Contains("test needs data"));
}

TEST_CASE("accumulation takes the mean over the batches that there were, in the remainder too") {
  const bool knows_size = GENERATE(true, false);
  OneWeight module;
  TrainerOptions options = quiet_options(1);
  options.accumulate_grad_batches = 2;
  Trainer trainer(options);
  trainer.fit(module, numbers({1, 3, 5}, knows_size));
  // (1 + 3) / 2, then 5 / 1: Lightning would divide the remainder by 2 as well.
  CHECK(module.weight() == Approx(-7.0));
  CHECK(trainer.global_step() == 2);
}

TEST_CASE("limits take ints as numbers and floats as shares") {
  const auto seen_with = [](Limit limit) {
    OneWeight module;
    TrainerOptions options = quiet_options(1);
    options.limit_train_batches = limit;
    Trainer(options).fit(module, numbers({1, 2, 3, 4}));
    return module.seen;
  };
  CHECK(seen_with(1) == std::vector<double>{1});
  CHECK(seen_with(1.0) == std::vector<double>{1, 2, 3, 4});
  CHECK(seen_with(0.5) == std::vector<double>{1, 2});
  CHECK(seen_with(0).empty());
}

TEST_CASE("a limit holds for a loader that does not know its size") {
  OneWeight module;
  TrainerOptions options = quiet_options(1);
  options.limit_train_batches = 3;
  Trainer(options).fit(module, numbers({1, 2, 3, 4}, false));
  CHECK(module.seen == std::vector<double>{1, 2, 3});
}

TEST_CASE("max_steps ends in the middle of an epoch, max_epochs -1 goes on until then") {
  OneWeight module;
  TrainerOptions options = quiet_options(-1);
  options.max_steps = 5;
  Trainer trainer(options);
  trainer.fit(module, numbers({1, 2}));
  CHECK(trainer.global_step() == 5);
  CHECK(module.seen == std::vector<double>{1, 2, 1, 2, 1});
}

TEST_CASE("validation runs at val_check_interval and every n-th epoch") {
  const auto validated = [](std::optional<CheckInterval> interval, std::optional<std::int64_t> every_n_epochs) {
    OneWeight module;
    TrainerOptions options = quiet_options(2);
    options.val_check_interval = interval;
    options.check_val_every_n_epoch = every_n_epochs;
    Trainer(options).fit(module, numbers({1, 2, 3, 4}), {numbers({7})});
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
  OneWeight module;
  module.on_step = [](OneWeight& self) {
    if (self.trainer().global_step() == 1) self.trainer().stop();
  };
  TrainerOptions options = quiet_options(3);
  SECTION("no minimum") {
    Trainer trainer(options);
    trainer.fit(module, numbers({1, 2, 3, 4}), {numbers({7})});
    CHECK(trainer.global_step() == 2);
    CHECK(module.validated_after == std::vector<std::int64_t>{2});
  }
  SECTION("min_steps") {
    options.min_steps = 3;
    Trainer trainer(options);
    trainer.fit(module, numbers({1, 2, 3, 4}));
    CHECK(trainer.global_step() == 4);  // min_steps sets min_epochs to 1, as in Lightning
  }
  SECTION("min_epochs") {
    options.min_epochs = 2;
    Trainer trainer(options);
    trainer.fit(module, numbers({1, 2, 3, 4}));
    CHECK(trainer.global_step() == 8);
  }
}

TEST_CASE("skip_epoch() in on_train_batch_start leaves the batch and the rest of the epoch out") {
  struct Skips : OneWeight {
    void on_train_batch_start(const Batch&, std::int64_t batch_idx) override {
      if (batch_idx == 1) trainer().skip_epoch();
    }
  } module;
  Trainer(quiet_options(2)).fit(module, numbers({1, 2, 3}), {numbers({7})});
  CHECK(module.seen == std::vector<double>{1, 1});
  CHECK(module.validated_after.empty());
}

TEST_CASE("gradients are clipped by norm or by value") {
  OneWeight module;
  TrainerOptions options = quiet_options(1);
  options.gradient_clip_val = 2.0;
  options.gradient_clip_algorithm = GENERATE(levin::GradientClipAlgorithm::kNorm, levin::GradientClipAlgorithm::kValue);
  Trainer(options).fit(module, numbers({10, 1}));
  CHECK(module.weight() == Approx(-3.0).margin(1e-5));
}

TEST_CASE("an undefined loss skips the update of its batch") {
  struct Undefined : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      if (batch_idx == 1) return {};
      return OneWeight::training_step(batch, batch_idx);
    }
  } module;
  Trainer(quiet_options(1)).fit(module, numbers({1, 100, 2}));
  CHECK(module.weight() == Approx(-3.0));
}

TEST_CASE("fast_dev_run takes its number of batches of each stage, once") {
  OneWeight module;
  TrainerOptions options = quiet_options(7);
  options.fast_dev_run = 2;
  Trainer(options).fit(module, numbers({1, 2, 3}), {numbers({7, 8, 9})});
  CHECK(module.seen == std::vector<double>{1, 2});
  CHECK(module.validated_after == std::vector<std::int64_t>{2, 2});
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

TEST_CASE("manual optimization counts the module's own steps") {
  struct Manual : OneWeight {
    Manual() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      const StepOutput output = OneWeight::training_step(batch, batch_idx);
      optimizer_zero_grad(optimizer());
      manual_backward(output.loss);
      step_optimizer();
      step_optimizer();
      return output;
    }
  } module;
  Trainer trainer(quiet_options(1));
  trainer.fit(module, numbers({1, 2}));
  CHECK(module.weight() == Approx(-6.0));
  CHECK(trainer.global_step() == 4);
}

TEST_CASE("a validation leaves the gradients of manual optimization, which may wait for more batches") {
  struct Waiting final : OneWeight {
    Waiting() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      manual_backward(OneWeight::training_step(batch, batch_idx).loss);
      if (batch_idx % 2 == 0) return {};
      step_optimizer();
      optimizer().zero_grad();
      return {};
    }
  };
  Waiting module;
  TrainerOptions options = quiet_options(1);
  options.val_check_interval = CheckInterval(Limit(1));
  Trainer(options).fit(module, numbers({1, 2, 4, 8}), {numbers({1})});
  CHECK(module.validated_after == std::vector<std::int64_t>{0, 1, 1, 2});
  CHECK(module.weight() == Approx(-15.0));
}

TEST_CASE("two optimizers need manual optimization, and the error says so") {
  struct Two : OneWeight {
    OptimizerSetups configure_optimizers() override {
      auto optimizer = std::make_shared<torch::optim::SGD>(parameters(), 1.0);
      return std::vector<OptimizerSetup>{{optimizer, {}}, {optimizer, {}}};
    }
  } module;
  Trainer trainer(quiet_options(1));
  CHECK_THROWS_WITH(trainer.fit(module, numbers({1})), Catch::Contains("set_automatic_optimization(false)"));
}

TEST_CASE("log() where it has no place is an error that names hook, key and line") {
  struct LogsInSetup : OneWeight {
    void setup(Stage) override { log("early", 1.0); }
  } module;
  Trainer trainer(quiet_options(1));
  CHECK_THROWS_WITH(trainer.fit(module, numbers({1})),
                    Catch::Contains("setup") && Catch::Contains("early") && Catch::Contains("fit_loop_test.cpp"));
}

TEST_CASE("epoch metrics are weighted by batch size and visible at the epoch's end") {
  struct Logs : OneWeight {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor mean = batch[0].mean();
      log("mean", mean, {.on_step = true, .on_epoch = true});
      step_value = trainer().callback_metrics().at("mean_step");
      return at::Tensor();
    }
    void on_train_epoch_end() override { epoch_value = trainer().callback_metrics().at("mean_epoch"); }
    double step_value = 0, epoch_value = 0;
  } module;
  Trainer trainer(quiet_options(1));
  std::vector<Batch> batches{Batch{{"x", torch::full({3}, 1.0)}}, Batch{{"x", torch::full({1}, 5.0)}}};
  trainer.fit(module, std::make_shared<FixedLoader>(batches));
  CHECK(module.step_value == 5.0);
  CHECK(module.epoch_value == Approx(2.0));  // (3 * 1 + 1 * 5) / 4
  CHECK(trainer.callback_metrics().at("mean") == Approx(2.0));
}

TEST_CASE("accumulation over batches of a known size takes the mean over samples") {
  struct Sized : FixedLoader {
    using FixedLoader::FixedLoader;
    std::optional<std::int64_t> batch_size() const override { return 2; }
  };
  OneWeight module;
  TrainerOptions options = quiet_options(1);
  options.accumulate_grad_batches = 2;
  Trainer trainer(options);
  std::vector<Batch> batches{Batch{{"x", torch::tensor({1.0F, 3.0F})}}, Batch{{"x", torch::tensor({8.0F})}}};
  trainer.fit(module, std::make_shared<Sized>(batches));
  CHECK(module.weight() == Approx(-4.0));  // (1 + 3 + 8) / 3, where the mean of the two means is 5
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
  TrainerOptions options = quiet_options();
  options.max_restarts = 1;
  options.min_devices = kHuge;
  CHECK_THROWS_AS(Trainer(options), ConfigError);
}
