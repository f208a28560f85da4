// When steps are taken, and what hooks, schedules and limits see of them, in cases of Lightning's own tests. When a run
// validates and ends: tests/acceptance/cases/loops.txt.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/lr_schedulers.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

using Integers = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

namespace {

std::shared_ptr<torch::optim::SGD> sgd_of(const ScriptedLine& module) {
  return std::make_shared<torch::optim::SGD>(module.parameters(), 1.0);
}

/// The rate of the first optimizer, which begins with 1.
double rate_of(const Trainer& trainer) { return get_lrs(*trainer.optimizers().at(0)).at(0); }

}  // namespace

TEST_CASE("an interval that counts batches across epochs holds in data of any length, and while gradients accumulate") {
  const auto [batches, knows_size] = GENERATE(table<int, bool>({{4, true}, {4, false}, {100, false}}));
  const std::int64_t accumulate = GENERATE(1, 2);
  ScriptedLine module;
  Integers after;
  module.on["on_validation_start"] = [&](auto& self, auto) { after.push_back(static_cast<std::int64_t>(self.seen.size())); };
  Trainer(quiet({.max_steps = 12 / accumulate,
                 .val_check_interval = 3,
                 .check_val_every_n_epoch = std::nullopt,
                 .accumulate_grad_batches = accumulate}))
      .fit(module, counted(batches, 1, knows_size), {counted(1)});
  CHECK(after == Integers{3, 6, 9, 12});
  CHECK(module.seen.size() == 12);
}

TEST_CASE("the rest of an epoch that a batch's start skips is left out, and schedules of the epoch step all the same") {
  const auto [epochs, at] = GENERATE(table<std::int64_t, std::int64_t>({{2, 5}, {3, 8}, {4, 12}}));
  ScriptedLine module;
  module.on["on_train_batch_start"] = [at = at](auto& self, std::int64_t index) {
    if (index == at) self.trainer().skip_epoch();
  };
  module.optimizers = [](auto& self) -> OptimizerSetups {
    return {sgd_of(self), StepLr::Options{.step_size = 1, .gamma = 0.5}};
  };
  Trainer trainer(quiet_options(epochs));
  trainer.fit(module, counted(10), {counted(1)});
  CHECK(module.validated.size() == (at < 10 ? 0U : static_cast<std::size_t>(epochs)));
  CHECK(trainer.global_step() == std::min<std::int64_t>(at, 10) * epochs);
  CHECK(trainer.batch_idx() == std::min<std::int64_t>(at, 9));
  CHECK(rate_of(trainer) == std::pow(0.5, epochs));
}

TEST_CASE("a validation within a window of accumulated batches keeps their gradients") {
  ScriptedLine module;
  std::vector<bool> has_gradient;
  module.on["on_validation_start"] = [&](auto& self, auto) { has_gradient.push_back(self.weight.grad().defined()); };
  Trainer(quiet({.max_epochs = 1, .val_check_interval = 2, .accumulate_grad_batches = 3}))
      .fit(module, counted(6), {counted(1)});
  CHECK(has_gradient == std::vector<bool>{true, true, false});
  CHECK(module.value() == Approx(-2.0 - 5.0));
}

TEST_CASE("the optimizer's step is asked for at the end of each window, also where a module takes it itself") {
  struct Steps final : ScriptedLine {
    void optimizer_step(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& closure) override {
      batches.push_back(trainer().batch_idx());
      if (!by_hand) return ScriptedLine::optimizer_step(optimizer, closure);
      closure();
      if (trainer().batch_idx() % 4 == 3) optimizer.step();
    }
    bool by_hand = false;
    Integers batches;
  } module;
  module.by_hand = GENERATE(false, true);
  Trainer(quiet({.max_epochs = 1, .accumulate_grad_batches = 2})).fit(module, counted(8));
  CHECK(module.batches == Integers{1, 3, 5, 7});
  CHECK(module.value() == (module.by_hand ? -3.5 - 7.5 : -1.5 - 3.5 - 5.5 - 7.5));
}

TEST_CASE("an optimizer_zero_grad that leaves gradients adds them up") {
  struct Keeps final : ScriptedLine {
    void optimizer_zero_grad(torch::optim::Optimizer& optimizer) override {
      if (trainer().batch_idx() % 2 == 0) ScriptedLine::optimizer_zero_grad(optimizer);
    }
  } module;
  Trainer(quiet_options(1)).fit(module, counted(4));
  CHECK(module.value() == -1.0 - (1 + 2) - 3 - (3 + 4));
}

TEST_CASE("batches without a loss take no step, and count in a window of batches as nothing") {
  const std::int64_t accumulate = GENERATE(1, 2);
  ScriptedLine module;
  module.step = [](auto& self, const Batch& batch, std::int64_t index) {
    return index % 2 == 0 ? StepOutput() : StepOutput(self.loss_of(batch));
  };
  Trainer trainer(quiet({.max_epochs = 1, .accumulate_grad_batches = accumulate}));
  trainer.fit(module, counted(6));
  // With a window of two each has one loss, whose gradient counts whole.
  CHECK(module.value() == -2.0 - 4 - 6);
}

TEST_CASE("a plateau that looks at a metric steps behind the validation of its step") {
  const bool on_train_epoch_end = GENERATE(false, true);
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) { self.log("foo", index); };
  module.optimizers = [](auto& self) -> OptimizerSetups {
    const auto sgd = sgd_of(self);
    const auto plateau = std::make_shared<ReduceLrOnPlateau>(*sgd, ReduceLrOnPlateau::Options{});
    const auto steps = std::make_shared<StepLr>(*sgd, StepLrOptions{.step_size = 1, .gamma = 0.5});
    return {sgd,
            {{.scheduler = plateau, .interval = Interval::kStep, .monitor = "foo"},
             {.scheduler = steps, .interval = Interval::kStep}}};
  };
  const TemporaryFolder folder;
  const ModelCheckpointOptions saving{.dirpath = folder.path(), .filename = "a", .save_on_train_epoch_end = on_train_epoch_end};
  Trainer(quiet({.max_epochs = 1, .callbacks = {ModelCheckpoint(saving)}})).fit(module, counted(4), {counted(1)});
  const Value schedules = Checkpoint::load_manifest(folder / "a.ckpt").at("lr_schedulers");
  CHECK(schedules.as_list().at(0).at("last_epoch") == Value(on_train_epoch_end ? 4 : 3));
  CHECK(schedules.as_list().at(1).at("last_epoch") == Value(4));
}

TEST_CASE("lr_scheduler_step is called for each schedule when it is due, and may do something else") {
  struct Custom final : ScriptedLine {
    void lr_scheduler_step(LrScheduler& scheduler, std::optional<double> metric) override {
      if (dynamic_cast<StepLr*>(&scheduler) == nullptr) {
        epochs.push_back(current_epoch());
        return;
      }
      ++steps;
      ScriptedLine::lr_scheduler_step(scheduler, metric);
    }
    Integers epochs;
    std::int64_t steps = 0;
  } module;
  module.optimizers = [](auto& self) -> OptimizerSetups {
    const auto sgd = sgd_of(self);
    const auto of_steps = std::make_shared<StepLr>(*sgd, StepLrOptions{.step_size = 1, .gamma = 0.5});
    const auto of_epochs = std::make_shared<ExponentialLr>(*sgd, ExponentialLrOptions{.gamma = 0.1});
    return {sgd, {{.scheduler = of_steps, .interval = Interval::kStep}, {.scheduler = of_epochs}}};
  };
  Trainer trainer(quiet_options(3));
  trainer.fit(module, counted(2));
  CHECK(module.epochs == Integers{0, 1, 2});
  CHECK(module.steps == 6);
  CHECK(rate_of(trainer) == 1.0 / 64);
}

TEST_CASE("a data module's hooks come once an entry point, with its stage, and its loaders when they are needed") {
  struct Data final : AskedData {
    void prepare_data() override { asked += "prepare "; }
    void setup(Stage stage) override { asked += "setup:" + std::string(stage_name(stage)) + " "; }
    void teardown(Stage stage) override { asked += "teardown:" + std::string(stage_name(stage)) + "\n"; }
  } data;
  ScriptedLine module;
  std::int64_t setups = 0;
  module.callbacks = {
      std::make_shared<LambdaCallback>(LambdaCallbackOptions{.setup = [&](Trainer&, Module&, Stage) { ++setups; }})};
  Trainer trainer(quiet({.max_epochs = 2, .num_sanity_val_steps = 1}));
  trainer.fit(module, data);
  const std::size_t callbacks = trainer.callbacks().size();
  trainer.validate(module, data, {.verbose = false});
  trainer.test(module, data, {.verbose = false});
  trainer.predict(module, data);
  CHECK(data.asked ==
        "prepare setup:train val train teardown:train\nprepare setup:validate val teardown:validate\n"
        "prepare setup:test test teardown:test\nprepare setup:predict predict teardown:predict\n");
  // So do the module's callbacks.
  CHECK(setups == 4);
  CHECK(trainer.callbacks().size() == callbacks);
}

TEST_CASE("loaders of training and evaluation know which epoch it is") {
  struct Noting final : FixedLoader {
    using FixedLoader::FixedLoader;
    void start_epoch(std::int64_t epoch) override {
      epochs.push_back(epoch);
      FixedLoader::start_epoch(epoch);
    }
    Integers epochs;
  };
  const auto train = std::make_shared<Noting>(std::vector<Batch>{Batch{{"x", torch::ones({1})}}});
  const auto validation = std::make_shared<Noting>(*train);
  ScriptedLine module;
  Trainer(quiet({.max_epochs = 3, .num_sanity_val_steps = 1})).fit(module, train, {validation});
  CHECK(train->epochs == Integers{0, 1, 2});
  CHECK(validation->epochs == Integers{0, 0, 1, 2});
}

TEST_CASE("a share of data of unknown length is an error that names the option, in each stage") {
  ScriptedLine module;
  const auto stream = [] { return counted(4, 1, /*knows_size=*/false); };
  const auto error = [&](TrainerOptions options, std::string_view stage = "fit") {
    Trainer trainer(quiet(std::move(options)));
    return error_of<Error>([&] {
      if (stage == "fit") trainer.fit(module, stream(), {stream()});
      if (stage == "test") trainer.test(module, {stream()});
      if (stage == "predict") trainer.predict(module, {stream()});
    });
  };
  CHECK_THAT(error({.max_epochs = 1, .limit_train_batches = 0.5}), Catch::Contains("limit_train_batches"));
  CHECK_THAT(error({.max_epochs = 1, .limit_val_batches = 0.5}), Catch::Contains("limit_val_batches"));
  CHECK_THAT(error({.max_epochs = 1, .val_check_interval = 0.5}), Catch::Contains("val_check_interval"));
  CHECK_THAT(error({.limit_test_batches = 0.5}, "test"), Catch::Contains("limit_test_batches"));
  CHECK_THAT(error({.limit_predict_batches = 0.5}, "predict"), Catch::Contains("limit_predict_batches"));
  // All of it, and none, are shares of any length.
  CHECK(error({.max_epochs = 1, .limit_train_batches = 1.0, .limit_val_batches = 0.0, .val_check_interval = 1.0}).empty());
}

TEST_CASE("predictions of several loaders come in the order of loaders and batches, also of a stream, within a limit") {
  ScriptedLine module;
  Trainer trainer(quiet({.limit_predict_batches = 3}));
  const auto predictions = trainer.predict(module, {counted(2, 1), counted(5, 10, /*knows_size=*/false)});
  REQUIRE(predictions.size() == 2);
  std::vector<Doubles> values(2);
  for (std::size_t loader = 0; loader < 2; ++loader) {
    for (const Batch& batch : predictions[loader]) values[loader].push_back(batch[0].item<double>());
  }
  CHECK(values == std::vector<Doubles>{{2, 4}, {20, 22, 24}});
}

TEST_CASE("a run that resumes behind a finished fit begins with the next epoch, and trains nothing behind max_epochs") {
  const TemporaryFolder folder;
  ScriptedLine module;
  Trainer first(quiet_options(2));
  first.fit(module, counted(2), {counted(1)});
  first.save_checkpoint(folder / "a.ckpt");
  const Value manifest = Checkpoint::load_manifest(folder / "a.ckpt");
  CHECK(manifest.at("epoch") == Value(2));
  CHECK(manifest.at("global_step") == Value(4));
  const bool trains = GENERATE(true, false);
  ScriptedLine resumed;
  Integers at_start;
  resumed.on["on_train_start"] = [&](auto& self, auto) { at_start = {self.current_epoch(), self.global_step()}; };
  Trainer second(quiet_options(trains ? 4 : 1));
  second.fit(resumed, counted(2), {counted(1)}, {.ckpt_path = folder / "a.ckpt"});
  if (trains) CHECK(at_start == Integers{2, 4});
  CHECK(resumed.seen == (trains ? Doubles{1, 2, 1, 2} : Doubles{}));
  CHECK(resumed.validated.size() == (trains ? 2 : 0));
  CHECK(second.current_epoch() == (trains ? 4 : 2));
  CHECK(second.global_step() == (trains ? 8 : 4));
  CHECK(resumed.value() == (trains ? -12 : -6));
}

TEST_CASE("callbacks see the checkpoint of an evaluation, and their states are those of training") {
  struct Restored final : Callback {
    Value state_dict() const override { return Value::Map{{"restored", restored}}; }
    void load_state_dict(const Value&) override { loaded = true; }
    void on_load_checkpoint(Trainer&, Module&, const Checkpoint& checkpoint) override {
      restored = checkpoint.manifest.at("callbacks").at("Restored").at("restored").as_bool();
    }
    bool restored = false, loaded = false;
  };
  const TemporaryFolder folder;
  const RunOptions run{.ckpt_path = folder / "a.ckpt", .verbose = false};
  ScriptedLine module;
  const auto saved = std::make_shared<Restored>();
  saved->restored = true;
  Trainer first(quiet({.max_epochs = 1, .callbacks = {saved}}));
  first.fit(module, counted(1));
  first.save_checkpoint(folder / "a.ckpt");
  for (const char stage : {'v', 't', 'p'}) {
    INFO(stage);
    const auto callback = std::make_shared<Restored>();
    Trainer trainer(quiet({.callbacks = {callback}}));
    if (stage == 'v') trainer.validate(module, {counted(1)}, run);
    if (stage == 't') trainer.test(module, {counted(1)}, run);
    if (stage == 'p') trainer.predict(module, {counted(1)}, run);
    CHECK(callback->restored);
    CHECK_FALSE(callback->loaded);
  }
}

TEST_CASE("gradients of a window are clipped once, as their mean") {
  ScriptedLine module;
  Trainer(quiet({.max_epochs = 1,
                 .accumulate_grad_batches = 2,
                 .gradient_clip_val = 2.0,
                 .gradient_clip_algorithm = GENERATE(GradientClipAlgorithm::kNorm, GradientClipAlgorithm::kValue)}))
      .fit(module, numbered({1, 9, 8, -6}));
  CHECK(module.value() == Approx(-2 - 1).epsilon(1e-6));
}

TEST_CASE("a stop is obeyed behind the batch whose gradients its wish travels with") {
  const auto [hook, trained] = GENERATE(table<const char*, std::size_t>({
      {"on_fit_start", 0},
      // Lightning trains none.
      {"on_train_start", 1},
      {"on_train_epoch_start", 1},
      {"on_train_batch_start", 1},
      {"training_step", 1},
      {"on_after_backward", 1},
      // Lightning trains one.
      {"on_train_batch_end", 2},
      {"on_validation_end", 4},
      {"on_train_epoch_end", 4},
  }));
  INFO(hook);
  ScriptedLine module;
  module.on[hook] = [](auto& self, auto) { self.trainer().stop("now"); };
  Trainer trainer(quiet_options(3));
  trainer.fit(module, counted(4), {counted(1)});
  CHECK(module.seen.size() == trained);
  CHECK(module.validated.size() == std::min<std::size_t>(trained, 1));
  CHECK(trainer.stop_reason() == "now");
}

TEST_CASE("a stop or a skipped epoch within a window of batches drops its gradients") {
  const bool stops = GENERATE(true, false);
  ScriptedLine module;
  module.on[stops ? "training_step" : "on_train_batch_start"] = [&](auto& self, std::int64_t index) {
    if (stops && index == 2) self.trainer().stop();
    if (!stops && index == 3) self.trainer().skip_epoch();
  };
  Trainer trainer(quiet({.max_epochs = 2, .accumulate_grad_batches = 2}));
  trainer.fit(module, counted(8));
  CHECK(module.seen == (stops ? Doubles{1, 2, 3} : Doubles{1, 2, 3, 1, 2, 3}));
  CHECK(trainer.global_step() == (stops ? 1 : 2));
  CHECK(module.value() == (stops ? -1.5 : -3));
}
