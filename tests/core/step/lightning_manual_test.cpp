// Manual optimization with several optimizers and schedules, in cases of Lightning's own tests. Every number is also computed
// by hand.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/callbacks/gradient_accumulation_scheduler.h"
#include "levin/callbacks/learning_rate_monitor.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/lr_schedulers.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;

namespace {

/// Two weights, each with an optimizer of rate 1.
class TwoLines : public ScriptedLine {
 public:
  TwoLines() {
    set_automatic_optimization(false);
    optimizers = [this](auto&) -> OptimizerSetups { return {sgd(weight), sgd(other)}; };
  }
  static std::shared_ptr<torch::optim::SGD> sgd(const at::Tensor& parameter, double lr = 1.0) {
    return std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{parameter}, lr);
  }
  at::Tensor other = register_parameter("other", torch::zeros({1}, torch::kDouble));
};

/// One weight, which so many steps in each batch move by the gradient of its loss.
class OneByHand : public ScriptedLine {
 public:
  explicit OneByHand(int steps = 1) {
    set_automatic_optimization(false);
    step = [steps](auto& self, const Batch& batch, auto) -> StepOutput {
      for (int done = 0; done < steps; ++done) {
        self.optimizer().zero_grad();
        self.manual_backward(self.loss_of(batch));
        self.step_optimizer();
      }
      return {};
    };
  }
};

}  // namespace

TEST_CASE("several steps and backward passes in a batch count and add up, and what is logged has one value a batch") {
  ScriptedLine module;
  module.set_automatic_optimization(false);
  std::int64_t passes = 0;
  module.on["on_after_backward"] = [&](auto&, auto) { ++passes; };
  module.optimizers = [](auto& self) -> OptimizerSetups {
    return {TwoLines::sgd(self.weight), TwoLines::sgd(self.weight, 0.5)};
  };
  module.step = [](auto& self, const Batch& batch, auto) {
    const auto zero_and_step = [&](std::size_t index) { self.step_optimizer(index), self.optimizer(index).zero_grad(); };
    CHECK(!self.weight.grad().defined());
    self.manual_backward(self.loss_of(batch));
    zero_and_step(0);
    CHECK(!self.weight.grad().defined());
    self.manual_backward(self.loss_of(batch));
    self.manual_backward(self.loss_of(batch));
    zero_and_step(1);
    self.log("a", batch[0].sum(), {.on_step = true, .on_epoch = true});
    return self.loss_of(batch);
  };
  Trainer trainer(quiet_options(1));
  trainer.fit(module, counted(2));
  CHECK(passes == 6);
  CHECK(trainer.global_step() == 4);
  CHECK(module.value() == -(1 + 2) - 0.5 * (2 + 4));
  CHECK(trainer.logged_metrics() == MetricMap{{"a_epoch", 1.5}, {"a_step", 2}});
}

TEST_CASE("max_steps counts the steps of all optimizers, and ends training behind the batch that reaches it") {
  TwoLines module;
  module.step = [](auto& self, const Batch& batch, auto) -> StepOutput {
    self.manual_backward(self.loss_of(batch));
    for (const std::size_t index : {0, 1}) self.step_optimizer(index);
    self.optimizer(0).zero_grad();
    return {};
  };
  Trainer trainer(quiet({.max_steps = 3}));
  trainer.fit(module, counted(5));
  CHECK(trainer.global_step() == 4);
  CHECK(module.seen == Doubles{1, 2});
}

TEST_CASE("optimizers that step at different paces take what has been added up, and are counted together") {
  TwoLines module;
  module.step = [](auto& self, const Batch& batch, std::int64_t index) -> StepOutput {
    self.manual_backward(self.loss_of(batch));
    self.log("first", batch[0].sum(), {.on_step = true, .on_epoch = true});
    if (index % 2 == 0) self.step_optimizer(0), self.optimizer(0).zero_grad();
    if (index % 4 == 0) {
      self.manual_backward((static_cast<TwoLines&>(self).other * batch[0]).mean());
      self.log("second", batch[0].sum(), {.on_step = true, .on_epoch = true});
      self.step_optimizer(1), self.optimizer(1).zero_grad();
    }
    return {};
  };
  Trainer trainer(quiet_options(1));
  trainer.fit(module, counted(8));
  CHECK(trainer.global_step() == 4 + 2);
  CHECK(module.value() == -1.0 - (2 + 3) - (4 + 5) - (6 + 7));
  CHECK(module.other.item<double>() == -1.0 - 5);
  CHECK(trainer.callback_metrics().at("first") == 4.5);
  CHECK(trainer.callback_metrics().at("second") == 3);
  CHECK(trainer.callback_metrics().at("second_step") == 5);
}

namespace {

/// A generator g and a discriminator d that take turns: d's loss is d * x - d * g * x / 2, of which it steps each second batch
/// on what two have added up, clipped to 5; g's is -d * g * x, each batch, clipped to a norm of 4. d's rate halves with each of
/// its steps, g's with each epoch.
class Game final : public TwoLines {
 public:
  Game() {
    const at::NoGradGuard no_grad;
    weight.fill_(1);
    other.fill_(0.5);
    optimizers = [this](auto&) -> OptimizerSetups {
      const StepLr::Options halves{.step_size = 1, .gamma = 0.5};
      return {{sgd(weight), halves}, {sgd(other), halves, {.interval = Interval::kStep}}};
    };
    step = [](auto& self, const Batch& batch, std::int64_t index) { return static_cast<Game&>(self).play(batch, index); };
    on["on_train_epoch_end"] = [](auto& self, auto) { self.lr_scheduler(0).step(); };
  }

  StepOutput play(const Batch& batch, std::int64_t index) {
    toggle_optimizer(1);
    CHECK((!weight.requires_grad() && other.requires_grad()));
    manual_backward((other * batch[0] - other * weight * batch[0] / 2).mean());
    if (index % 2 == 1) {
      clip_gradients(optimizer(1), 5, GradientClipAlgorithm::kValue);
      step_optimizer(1);
      optimizer(1).zero_grad();
      lr_scheduler(1).step();
    }
    untoggle_optimizer(1);
    toggle_optimizer(0);
    CHECK((weight.requires_grad() && !other.requires_grad()));
    optimizer(0).zero_grad();
    manual_backward((-other * weight * batch[0]).mean());
    clip_gradients(optimizer(0), 4);
    step_optimizer(0);
    untoggle_optimizer(0);
    log("g", value());
    return {};
  }
};

/// The same in plain numbers: g, d.
std::pair<double, double> played(int epochs, int batches) {
  double g = 1, d = 0.5, g_rate = 1, d_rate = 1, sum = 0;
  for (int epoch = 0; epoch < epochs; ++epoch, g_rate /= 2) {
    for (int x = 1; x <= batches; ++x) {
      sum += x - g * x / 2;
      if (x % 2 == 0) d -= d_rate * std::clamp(sum, -5.0, 5.0), sum = 0, d_rate /= 2;
      const double slope = -d * x;
      g -= g_rate * (std::abs(slope) > 4 ? 4 * slope / std::abs(slope) : slope);
    }
  }
  return {g, d};
}

}  // namespace

TEST_CASE("two optimizers in turns, each with its windows, clipping and schedule, are what the numbers say") {
  const std::int64_t batches = GENERATE(4, 5);  // with five, the last window continues in the next epoch
  Game game;
  Trainer trainer(quiet({.max_epochs = 3, .val_check_interval = 3}));
  trainer.fit(game, counted(static_cast<int>(batches)), {counted(2)});
  const auto [g, d] = played(3, static_cast<int>(batches));
  CHECK(game.value() == Approx(g).epsilon(1e-5));
  CHECK(game.other.item<double>() == Approx(d).epsilon(1e-5));
  CHECK(trainer.global_step() == 3 * batches + 3 * (batches / 2));
  CHECK(get_lrs(*trainer.optimizers().at(0)).at(0) == 1.0 / 8);
  CHECK(get_lrs(*trainer.optimizers().at(1)).at(0) == std::pow(0.5, 3 * (batches / 2)));
}

TEST_CASE("such a game resumes from a checkpoint within a window to the same numbers") {
  const TemporaryFolder folder;
  const std::int64_t at = GENERATE(0, 1, 2, 4, 6);
  Game game;
  std::int64_t batches = 0;
  game.on["on_train_batch_end"] = [&](auto& self, auto) {
    if (batches++ == at) self.trainer().save_checkpoint(folder / "a.ckpt");
  };
  Trainer(quiet_options(2)).fit(game, counted(5));
  Game resumed;
  Trainer trainer(quiet_options(2));
  trainer.fit(resumed, counted(5), {}, {.ckpt_path = folder / "a.ckpt"});
  CHECK(resumed.value() == game.value());
  CHECK(resumed.other.equal(game.other));
  CHECK(resumed.seen.size() == static_cast<std::size_t>(9 - at));
  CHECK(trainer.global_step() == 10 + 2 * 2);
}

TEST_CASE("toggled optimizers take turns, and a turn that is not ended or begun is an error") {
  const auto [act, message] = GENERATE(table<std::function<void(ScriptedLine&)>, std::string>({
      {[](ScriptedLine& module) { module.toggle_optimizer(1), module.toggle_optimizer(0); },
       "optimizer 1 is toggled. Call untoggle_optimizer(1) first"},
      {[](ScriptedLine& module) { module.untoggle_optimizer(1); }, "untoggle_optimizer(1): this optimizer is not toggled"},
      {[](ScriptedLine& module) { module.toggle_optimizer(1), module.untoggle_optimizer(0); },
       "untoggle_optimizer(0): this optimizer is not toggled"},
      {[](ScriptedLine& module) { module.toggle_optimizer(1); }, "training_step ended while optimizer 1 was toggled"},
      {[](ScriptedLine& module) { module.toggle_optimizer(2); }, "configure_optimizers returned 2 optimizers"},
  }));
  TwoLines module;
  module.on["training_step"] = [act = act](auto& self, auto) { act(self); };
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).fit(module, counted(1)), Catch::Contains(message));
  for (const at::Tensor& parameter : module.parameters()) CHECK(parameter.requires_grad());
}

TEST_CASE("a turn gives each parameter back as it was, shared, frozen or not") {
  TwoLines module;
  const at::Tensor third = module.register_parameter("third", torch::zeros({1}, torch::kDouble), /*requires_grad=*/false);
  module.optimizers = [&](auto& self) -> OptimizerSetups {
    const auto of = [](std::vector<at::Tensor> list) { return std::make_shared<torch::optim::SGD>(std::move(list), 1.0); };
    return {of({self.weight, module.other}), of({module.other, third})};
  };
  const auto states = [&] {
    std::string text;
    for (const at::Tensor& each : {module.weight, module.other, third}) text += each.requires_grad() ? '1' : '0';
    return text;
  };
  std::string seen;
  module.step = [&](auto& self, const Batch&, auto) -> StepOutput {
    for (const std::size_t index : {0, 1}) {
      self.toggle_optimizer(index);
      seen += states() + " ";
      self.untoggle_optimizer(index);
      seen += states() + " ";
    }
    return {};
  };
  Trainer(quiet_options(1)).fit(module, counted(1));
  CHECK(seen == "110 110 010 110 ");
}

TEST_CASE("schedules under manual optimization are those that were returned, and step when the module says so") {
  TwoLines module;
  std::vector<std::shared_ptr<LrScheduler>> made;
  module.optimizers = [&](auto& self) -> OptimizerSetups {
    const auto first = TwoLines::sgd(self.weight), second = TwoLines::sgd(module.other);
    made = {std::make_shared<StepLr>(*first, StepLrOptions{.step_size = 1, .gamma = 0.5}),
            std::make_shared<ReduceLrOnPlateau>(*second, ReduceLrOnPlateau::Options{.factor = 0.1, .patience = 0})};
    return {{first, {{.scheduler = made[0]}}}, {second, {{.scheduler = made[1]}}}};
  };
  module.step = [](auto&, const Batch&, auto) { return StepOutput(); };
  module.on["on_train_epoch_end"] = [&](auto& self, auto) {
    for (const std::size_t index : {0, 1}) CHECK(&self.lr_scheduler(index) == made[index].get());
    self.lr_scheduler(1).step(std::optional<double>(0.0));
  };
  Trainer trainer(quiet_options(3));
  trainer.fit(module, counted(2));
  CHECK(get_lrs(*trainer.optimizers().at(0)).at(0) == 1.0);
  CHECK(get_lrs(*trainer.optimizers().at(1)).at(0) == Approx(0.01));
}

TEST_CASE("rates of optimizers of one class have different names, at each step or epoch, while a module steps several") {
  const Interval interval = GENERATE(Interval::kStep, Interval::kEpoch);
  const bool scheduled = GENERATE(false, true);
  TwoLines module;
  module.optimizers = [&](auto& self) -> OptimizerSetups {
    const auto adam = [](const at::Tensor& of) { return std::make_shared<torch::optim::Adam>(std::vector{of}, 0.01); };
    const StepLr::Options tenth{.step_size = 1, .gamma = 0.1};
    if (!scheduled) return {adam(self.weight), adam(module.other)};
    return {{adam(self.weight), tenth}, {adam(module.other), tenth}};
  };
  module.step = [](auto& self, const Batch& batch, auto) -> StepOutput {
    self.manual_backward(self.loss_of(batch));
    for (const std::size_t index : {0, 1}) self.step_optimizer(index);
    return {};
  };
  module.on["on_train_epoch_end"] = [&](auto& self, auto) {
    if (scheduled) self.lr_scheduler(0).step(), self.lr_scheduler(1).step();
  };
  const auto monitor = std::make_shared<LearningRateMonitor>(LearningRateMonitorOptions{.logging_interval = interval});
  TrainerOptions options = quiet({.max_epochs = 2, .logger = std::make_shared<RowsOf>(), .log_every_n_steps = 2});
  options.callbacks = {monitor};
  Trainer(options).fit(module, counted(7));
  REQUIRE(monitor->lrs().size() == 2);
  for (const char* name : {"lr-Adam", "lr-Adam-1"}) {
    CHECK(monitor->lrs().at(name).size() == (interval == Interval::kEpoch ? 2 : 7));
    CHECK(monitor->lrs().at(name).back() == Approx(scheduled ? 0.001 : 0.01));
  }
}

TEST_CASE("what the Trainer would do by itself is refused under manual optimization, with what to do instead") {
  const auto error = [](TrainerOptions options, bool automatic = false) {
    TwoLines module;
    module.set_automatic_optimization(automatic);
    module.step = [](auto&, const Batch&, auto) { return StepOutput(); };
    return error_of<Error>([&] { Trainer(quiet(std::move(options))).fit(module, counted(1)); });
  };
  CHECK_THAT(error({.max_epochs = 1, .accumulate_grad_batches = 2}), Catch::Contains("accumulate_grad_batches"));
  CHECK_THAT(error({.max_epochs = 1, .callbacks = {GradientAccumulationScheduler({.scheduling = {{1, 2}}})}}),
             Catch::Contains("GradientAccumulationScheduler"));
  CHECK_THAT(error({.max_epochs = 1, .gradient_clip_val = 2.0}), Catch::Contains("call clip_gradients"));
  CHECK(error({.max_epochs = 1, .gradient_clip_val = 0.0}).empty());
  // And two optimizers without it.
  CHECK_THAT(error({.max_epochs = 1}, /*automatic=*/true), Catch::Contains("set_automatic_optimization(false)"));
}

TEST_CASE("the loss that a manual step returns is for hooks alone, whole and without a gradient") {
  struct Looks final : TwoLines {
    void on_train_batch_end(const StepOutput& output, const Batch&, std::int64_t) override {
      losses.push_back(output.loss.defined() ? output.loss.item<double>() : -1);
      CHECK((!output.loss.defined() || !output.loss.requires_grad()));
    }
    Doubles losses;
  } module;
  module.step = [](auto& self, const Batch& batch, std::int64_t index) {
    return index == 1 ? StepOutput() : StepOutput(self.loss_of(batch) + 3);
  };
  Trainer trainer(quiet_options(1));
  trainer.fit(module, counted(3));
  CHECK(module.losses == Doubles{3, -1, 3});
  CHECK(module.value() == 0);
  CHECK(trainer.global_step() == 0);
}

TEST_CASE("a checkpoint after each batch of a module that steps by itself has the weights behind its step") {
  const TemporaryFolder folder;
  OneByHand module;
  const Doubles losses{1, 1, 0, 1};
  module.on["training_step"] = [&](auto& self, std::int64_t index) {
    self.log("loss", losses[static_cast<std::size_t>(index)], {.on_step = true, .on_epoch = true});
  };
  const auto best = std::make_shared<ModelCheckpoint>(
      ModelCheckpointOptions{.dirpath = folder.path(), .monitor = "loss", .every_n_train_steps = 1});
  Trainer(quiet({.max_epochs = 1, .callbacks = {best}})).fit(module, counted(4));
  CHECK(best->best_model_score() == 0.0);
  CHECK(Checkpoint::load(best->best_model_path()).tensors.at("state_dict.weight").item<double>() == -1.0 - 2 - 3);
}

TEST_CASE("an average and files count the steps of a batch, and come once a batch") {
  const TemporaryFolder folder;
  OneByHand module(/*steps=*/2);
  const auto averaging =
      std::make_shared<EMAWeightAveraging>(EMAWeightAveragingOptions{.decay = 0.5, .update_every_n_steps = 3});
  const ModelCheckpointOptions saving{
      .dirpath = folder.path(), .filename = "{step}", .save_top_k = -1, .every_n_train_steps = 3};
  Trainer(quiet({.max_epochs = 1, .callbacks = {averaging, ModelCheckpoint(saving)}})).fit(module, counted(6));
  // Behind batches 2 and 5, whose last steps are 3 and 9.
  CHECK(averaging->averaged() == 2);
  CHECK(module.value() == (-2.0 * (1 + 2) - 2.0 * (1 + 2 + 3 + 4 + 5)) / 2);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.insert(entry.path().filename().string());
  CHECK(names == std::set<std::string>{"step=6.ckpt", "step=12.ckpt"});
}

TEST_CASE("validation within an epoch sees the average, and training continues with its own weights") {
  OneByHand module;
  Doubles trained, seen;
  module.on["on_train_batch_start"] = [&](auto& self, auto) { trained.push_back(self.value()); };
  module.on["validation_step"] = [&](auto& self, auto) { seen.push_back(self.value()); };
  Trainer(quiet({.max_epochs = 1, .callbacks = {EMAWeightAveraging({.decay = 0.5})}, .val_check_interval = 2}))
      .fit(module, counted(4), {counted(1)});
  CHECK(trained == Doubles{0, -1, -3, -6});
  // -1; -2 of -1 and -3; -4 of -2 and -6; -7 of -4 and -10.
  CHECK(seen == Doubles{-2, -7});
  CHECK(module.value() == -7);
}
