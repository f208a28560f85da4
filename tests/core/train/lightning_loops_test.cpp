// When batches are trained and validated, in cases of Lightning's own tests.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/data/combined_loader.h"
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

/// The batches that were trained before each validation.
Integers validated_after(TrainerOptions options, const LoaderPtr& loader, ScriptedLine& module, int val_batches = 1) {
  Integers after;
  module.on["on_validation_start"] = [&](auto& self, auto) { after.push_back(static_cast<std::int64_t>(self.seen.size())); };
  Trainer(quiet(std::move(options))).fit(module, loader, {counted(val_batches)});
  return after;
}

}  // namespace

TEST_CASE("a share of an epoch validates as often in each as it goes into it") {
  const auto [epochs, parts] = GENERATE(table<std::int64_t, int>({{1, 1}, {2, 1}, {1, 3}, {3, 3}, {2, 4}}));
  ScriptedLine module;
  const Integers after = validated_after({.max_epochs = epochs, .val_check_interval = 1.0 / parts}, counted(64), module);
  Integers expected;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (int part = 1; part <= parts; ++part) expected.push_back(64 * epoch + part * (64 / parts));
  }
  CHECK(after == expected);
}

TEST_CASE("an interval that counts batches across epochs is kept in data of any length, and while gradients accumulate") {
  const auto [batches, knows_size] = GENERATE(table<int, bool>({{4, true}, {4, false}, {100, false}}));
  const std::int64_t accumulate = GENERATE(1, 2);
  ScriptedLine module;
  const Integers after = validated_after({.max_steps = 12 / accumulate,
                                          .val_check_interval = 3,
                                          .check_val_every_n_epoch = std::nullopt,
                                          .accumulate_grad_batches = accumulate},
                                         counted(batches, 1, knows_size), module);
  CHECK(after == Integers{3, 6, 9, 12});
  CHECK(module.seen.size() == 12);
}

TEST_CASE("an interval that no epoch reaches is an error, unless it goes across epochs or nothing is validated") {
  const auto error = [](TrainerOptions options) {
    return error_of<ConfigError>([&] {
      ScriptedLine module;
      validated_after(std::move(options), counted(10), module);
    });
  };
  CHECK_THAT(error({.max_epochs = 1, .val_check_interval = 11}),
             Catch::Contains("val_check_interval") && Catch::Contains("10"));
  CHECK_THAT(error({.max_epochs = 1, .val_check_interval = 0.5, .check_val_every_n_epoch = std::nullopt}),
             Catch::Contains("val_check_interval"));
  CHECK(error({.max_epochs = 2, .val_check_interval = 11, .check_val_every_n_epoch = std::nullopt}).empty());
  CHECK(error({.max_epochs = 1, .limit_val_batches = 0, .val_check_interval = 11}).empty());
  CHECK(error({.max_epochs = 1, .limit_val_batches = 0.0, .val_check_interval = 11}).empty());
}

TEST_CASE("validation every so many epochs leaves the others out, whichever limit ends training") {
  const auto [options, expected] = GENERATE(table<TrainerOptions, Integers>({
      {{.max_epochs = 1, .check_val_every_n_epoch = 2}, {}},
      {{.max_epochs = 4, .check_val_every_n_epoch = 2}, {4, 8}},
      {{.max_epochs = 5, .check_val_every_n_epoch = 2}, {4, 8}},
      {{.max_steps = 8, .check_val_every_n_epoch = 3}, {6}},
      {{.max_epochs = 4, .val_check_interval = 1, .check_val_every_n_epoch = 2}, {3, 4, 7, 8}},
  }));
  ScriptedLine module;
  CHECK(validated_after(options, counted(2), module) == expected);
}

TEST_CASE("limits are numbers or shares of each loader, and a share of no batch is an error") {
  ScriptedLine module;
  Integers numbers;
  module.on["on_validation_epoch_end"] = [&](auto& self, auto) { numbers = self.trainer().num_evaluation_batches(); };
  const auto fit = [&](Limit limit) {
    Trainer trainer(quiet({.max_epochs = 1, .limit_train_batches = limit, .limit_val_batches = limit}));
    module.seen.clear(), module.validated.clear();
    trainer.fit(module, counted(64), {counted(64), counted(20)});
    return Integers{static_cast<std::int64_t>(module.seen.size()), trainer.num_training_batches(), numbers.at(0),
                    numbers.at(1)};
  };
  CHECK(fit(100) == Integers{64, 64, 64, 20});
  CHECK(fit(7) == Integers{7, 7, 7, 7});
  CHECK(fit(0.3) == Integers{19, 19, 19, 6});
  CHECK(module.validated.size() == 25);
  CHECK_THAT(error_of<ConfigError>([&] { fit(0.04); }), Catch::Contains("limit_val_batches"));
  Trainer trainer(quiet({.limit_test_batches = 0.1, .limit_predict_batches = 0.1}));
  trainer.test(module, {counted(64)}, {.verbose = false});
  CHECK(module.tested.size() == 6);
  CHECK(trainer.predict(module, {counted(64)}).at(0).size() == 6);
}

TEST_CASE("training ends with the first of its limits, and does not begin where one is 0") {
  const auto [options, steps, epochs] = GENERATE(table<TrainerOptions, std::int64_t, std::int64_t>({
      {{.max_epochs = 3, .max_steps = 42}, 42, 2},
      {{.max_epochs = 2, .max_steps = 192}, 64, 2},
      {{.max_epochs = -1, .max_steps = 3}, 3, 1},
      {{.max_steps = 64}, 64, 2},
      {{.max_epochs = 0}, 0, 0},
      {{.max_steps = 0}, 0, 0},
      {{.max_epochs = -1, .max_steps = 0}, 0, 0},
      // Of 32 batches three steps take ten, and the fourth the last two.
      {{.max_steps = 42, .accumulate_grad_batches = 10}, 42, 11},
  }));
  ScriptedLine module;
  Trainer trainer(quiet(options));
  trainer.fit(module, counted(32), {counted(1)});
  CHECK(trainer.global_step() == steps);
  CHECK(trainer.current_epoch() == epochs);
  CHECK(module.validated.size() == module.seen.size() / 32);
}

TEST_CASE("limits of epochs and steps below -1 are errors") {
  CHECK_THAT(error_of<ConfigError>([] { Trainer({.max_epochs = -100, .quiet = true}); }), Catch::Contains("max_epochs"));
  CHECK_THAT(error_of<ConfigError>([] { Trainer({.max_steps = -2, .quiet = true}); }), Catch::Contains("max_steps"));
}

TEST_CASE("who overfits trains and validates on as many batches, and tests and predicts on all") {
  const auto [overfit, batches] = GENERATE(table<Limit, std::size_t>({{1, 1}, {2, 2}, {0.11, 7}, {0.25, 16}, {1.0, 64}}));
  ScriptedLine module;
  Trainer trainer(quiet({.max_epochs = 2, .overfit_batches = overfit}));
  trainer.fit(module, counted(64), {counted(64)});
  CHECK(module.seen.size() == 2 * batches);
  CHECK(module.validated == module.seen);
  CHECK(trainer.num_training_batches() == static_cast<std::int64_t>(batches));
  trainer.test(module, {counted(64)}, {.verbose = false});
  CHECK(module.tested.size() == 64);
  CHECK(trainer.predict(module, {counted(64)}).at(0).size() == 64);
}

TEST_CASE("fast_dev_run takes so many batches of each stage, whatever else is asked for, and nobody saves or stops") {
  const TemporaryFolder folder;
  const std::int64_t batches = GENERATE(1, 4);
  const auto logger = std::make_shared<RowsOf>();
  TrainerOptions options = quiet({.max_epochs = 7, .max_steps = 3, .logger = logger, .fast_dev_run = batches});
  options.val_check_interval = 2;
  options.callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = folder / "ckpt"}),
                       std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "foo"})};
  options.enable_checkpointing = std::nullopt;
  Trainer trainer(options);
  ScriptedLine module;
  std::int64_t epoch_ends = 0;
  module.on["training_step"] = [](auto& self, auto) { self.log("some", 7.0); };
  module.on["on_train_epoch_end"] = module.on["on_validation_epoch_end"] = [&](auto&, auto) { ++epoch_ends; };
  trainer.fit(module, counted(10), {counted(10)});
  trainer.test(module, {counted(10)}, {.verbose = false});
  CHECK(module.seen.size() == static_cast<std::size_t>(batches));
  CHECK(module.validated.size() == static_cast<std::size_t>(batches));
  CHECK(module.tested.size() == static_cast<std::size_t>(batches));
  CHECK(epoch_ends == 2);
  CHECK(logger->rows.empty());
  CHECK_FALSE(std::filesystem::exists(folder / "ckpt"));
}

TEST_CASE("a stop in the middle of an epoch validates there") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    if (index == 4) self.trainer().stop();
  };
  CHECK(validated_after({.max_epochs = 1}, counted(10), module) == Integers{5});
}

TEST_CASE("a stop that comes too early holds until the least epochs and steps are there, and validates once more then") {
  struct Row {
    int batches;
    std::int64_t min_epochs, min_steps, steps;
  };
  const Row row = GENERATE(Row{3, 0, 10, 10}, Row{5, 0, 10, 10}, Row{3, 2, 0, 6}, Row{5, 2, 0, 10}, Row{3, 1, 10, 10},
                           Row{5, 1, 10, 10}, Row{3, 3, 10, 10}, Row{5, 3, 10, 15});
  TrainerOptions options = quiet_options(20);
  options.min_epochs = row.min_epochs;
  options.min_steps = row.min_steps;
  const auto stopping = std::make_shared<EarlyStopping>(
      EarlyStoppingOptions{.monitor = "foo", .stopping_threshold = 100, .check_on_train_epoch_end = true});
  options.callbacks = {stopping};
  Trainer trainer(options);
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, auto) { self.log("foo", 1.0); };
  trainer.fit(module, counted(row.batches));
  CHECK(trainer.global_step() == row.steps);
}

TEST_CASE("a stop that minimums hold up does not validate more often") {
  const auto [min_epochs, min_steps, expected] =
      GENERATE(table<std::optional<std::int64_t>, std::optional<std::int64_t>, Integers>(
          {{3, std::nullopt, {2, 4, 6}}, {std::nullopt, 3, {2, 3}}}));
  TrainerOptions options{.max_epochs = 3, .min_epochs = min_epochs, .min_steps = min_steps};
  options.callbacks = {std::make_shared<EarlyStopping>(
      EarlyStoppingOptions{.monitor = "loss", .stopping_threshold = 100, .check_on_train_epoch_end = true})};
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, auto) { self.log("loss", 1.0); };
  CHECK(validated_after(options, counted(2), module) == expected);
}

TEST_CASE("the rest of an epoch that a batch's start skips is left out, and schedules of the epoch step all the same") {
  const auto [epochs, at] = GENERATE(table<std::int64_t, std::int64_t>({{2, 5}, {3, 8}, {4, 12}}));
  ScriptedLine module;
  module.on["on_train_batch_start"] = [at = at](auto& self, std::int64_t index) {
    if (index == at) self.trainer().skip_epoch();
  };
  module.optimizers = [](auto& self) -> OptimizerSetups {
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 1.0), StepLr::Options{.step_size = 1, .gamma = 0.5}};
  };
  Trainer trainer(quiet_options(epochs));
  trainer.fit(module, counted(10));
  CHECK(trainer.global_step() == std::min<std::int64_t>(at, 10) * epochs);
  CHECK(trainer.batch_idx() == std::min<std::int64_t>(at, 9));
  CHECK(get_lrs(*trainer.optimizers().at(0)).at(0) == std::pow(0.5, epochs));
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

TEST_CASE("a run that resumes behind an epoch validates after the next one only") {
  const TemporaryFolder folder;
  ScriptedLine module;
  Trainer first(quiet_options(1));
  first.fit(module, counted(2), {counted(1)});
  first.save_checkpoint(folder / "a.ckpt");
  ScriptedLine resumed;
  Trainer(quiet_options(2)).fit(resumed, counted(2), {counted(1)}, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK(resumed.validated.size() == 1);
  CHECK(resumed.seen == Doubles{1, 2});
  CHECK(resumed.value() == -6);
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

TEST_CASE(
    "each batch has one backward pass, with accumulation too, and an optimizer that evaluates often as many as it asks for") {
  struct Counts final : ScriptedLine {
    void backward(const at::Tensor& loss) override {
      ++passes;
      ScriptedLine::backward(loss);
    }
    void on_before_zero_grad(torch::optim::Optimizer&) override { ++zeroed; }
    std::int64_t passes = 0, zeroed = 0;
  };
  const auto passes = [](TrainerOptions options, bool lbfgs = false) {
    Counts module;
    if (lbfgs) {
      module.step = [](auto& self, const Batch& batch, auto) { return (self.weight * batch[0] - 3).square().mean(); };
      module.optimizers = [](auto& self) {
        return std::make_shared<torch::optim::LBFGS>(self.parameters(), torch::optim::LBFGSOptions(1).max_iter(4));
      };
    }
    Trainer trainer(quiet(std::move(options)));
    trainer.fit(module, counted(6));
    const Integers counts{module.passes, module.zeroed};
    trainer.test(module, {counted(2)}, {.verbose = false});
    CHECK(module.passes == counts[0]);
    return counts;
  };
  CHECK(passes({.max_steps = 3}) == Integers{3, 3});
  CHECK(passes({.max_epochs = 1, .accumulate_grad_batches = 2}) == Integers{6, 3});
  CHECK(passes({.max_steps = 6, .accumulate_grad_batches = 2}) == Integers{12, 6});
  CHECK(passes({.max_steps = 1}, /*lbfgs=*/true)[0] >= 2);
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

TEST_CASE("evaluation takes several loaders in parallel as each mode of CombinedLoader says, and in turn with a limit") {
  const auto [mode, expected] = GENERATE(table<CombineMode, Doubles>({{CombineMode::kMaxSizeCycle, {10, 21, 12}},
                                                                      {CombineMode::kMinSize, {10, 21}},
                                                                      {CombineMode::kMaxSize, {10, 21, 2}},
                                                                      {CombineMode::kSequential, {0, 1, 2, 10, 20}}}));
  struct Adds final : ScriptedLine {
    void validation_step(const Batch& batch, std::int64_t) override { sums.push_back(sum(batch)); }
    void test_step(const Batch& batch, std::int64_t) override { sums.push_back(sum(batch)); }
    static double sum(const Batch& batch) {
      double all = 0;
      for (const auto& [name, tensor] : batch.items()) all += tensor.template item<double>();
      return all;
    }
    Doubles sums;
  } module;
  const auto two = std::make_shared<FixedLoader>(
      std::vector<Batch>{Batch{{"x", torch::full({1}, 10.0)}}, Batch{{"x", torch::full({1}, 20.0)}}});
  const auto loader = std::make_shared<CombinedLoader>(std::vector<NamedLoader>{{"a", counted(3, 0)}, {"b", two}}, mode);
  Trainer(quiet_options()).validate(module, {loader}, {.verbose = false});
  CHECK(module.sums == expected);
  module.sums.clear();
  Trainer(quiet({.limit_test_batches = 2})).test(module, {loader}, {.verbose = false});
  CHECK(module.sums.size() == 2);
}

TEST_CASE("schedules of the epoch step once an epoch, however often is validated") {
  const std::int64_t check = GENERATE(1, 2, 3);
  ScriptedLine module;
  module.optimizers = [](auto& self) -> OptimizerSetups {
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 1.0), StepLr::Options{.step_size = 1, .gamma = 0.5}};
  };
  TrainerOptions options = quiet({.max_epochs = 4, .check_val_every_n_epoch = check});
  Trainer trainer(options);
  trainer.fit(module, counted(2), {counted(2)});
  CHECK(get_lrs(*trainer.optimizers().at(0)).at(0) == 1.0 / 16);
}

TEST_CASE("a checkpoint has the schedule as it stands behind its step or epoch") {
  const TemporaryFolder folder;
  const auto [every_n_steps, interval] = GENERATE(table<std::optional<std::int64_t>, Interval>(
      {{std::nullopt, Interval::kEpoch}, {2, Interval::kStep}, {2, Interval::kEpoch}}));
  ScriptedLine module;
  module.optimizers = [interval = interval](auto& self) -> OptimizerSetups {
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 1.0),
            StepLr::Options{.step_size = 1, .gamma = 10},
            {.interval = interval}};
  };
  TrainerOptions options = quiet_options(1);
  options.enable_checkpointing = std::nullopt;
  options.callbacks = {std::make_shared<ModelCheckpoint>(
      ModelCheckpointOptions{.dirpath = folder.path(), .filename = "a", .every_n_train_steps = every_n_steps})};
  Trainer(options).fit(module, counted(2), {counted(1)});
  const Value schedule = Checkpoint::load_manifest(folder / "a.ckpt").at("lr_schedulers").as_list().at(0);
  const int steps = interval == Interval::kStep ? 2 : 1;
  CHECK(schedule.at("last_epoch") == Value(steps));
  CHECK(schedule.at("_last_lr").as_list().at(0) == Value(std::pow(10.0, steps)));
}

TEST_CASE("a plateau that looks at a metric steps behind the validation of its step") {
  const bool on_train_epoch_end = GENERATE(false, true);
  const TemporaryFolder folder;
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) { self.log("foo", index); };
  module.optimizers = [](auto& self) -> OptimizerSetups {
    const auto sgd = std::make_shared<torch::optim::SGD>(self.parameters(), 1.0);
    const auto plateau = std::make_shared<ReduceLrOnPlateau>(*sgd, ReduceLrOnPlateau::Options{});
    const auto steps = std::make_shared<StepLr>(*sgd, StepLrOptions{.step_size = 1, .gamma = 0.5});
    return {sgd,
            {{.scheduler = plateau, .interval = Interval::kStep, .monitor = "foo"},
             {.scheduler = steps, .interval = Interval::kStep}}};
  };
  TrainerOptions options = quiet_options(1);
  options.enable_checkpointing = std::nullopt;
  options.callbacks = {std::make_shared<ModelCheckpoint>(
      ModelCheckpointOptions{.dirpath = folder.path(), .filename = "a", .save_on_train_epoch_end = on_train_epoch_end})};
  Trainer(options).fit(module, counted(4), {counted(1)});
  const Value manifest = Checkpoint::load_manifest(folder / "a.ckpt");
  const auto& schedules = manifest.at("lr_schedulers").as_list();
  CHECK(schedules.at(0).at("last_epoch") == Value(on_train_epoch_end ? 4 : 3));
  CHECK(schedules.at(1).at("last_epoch") == Value(4));
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
    const auto sgd = std::make_shared<torch::optim::SGD>(self.parameters(), 1.0);
    const auto of_steps = std::make_shared<StepLr>(*sgd, StepLrOptions{.step_size = 1, .gamma = 0.5});
    const auto of_epochs = std::make_shared<ExponentialLr>(*sgd, ExponentialLrOptions{.gamma = 0.1});
    return {sgd, {{.scheduler = of_steps, .interval = Interval::kStep}, {.scheduler = of_epochs}}};
  };
  Trainer trainer(quiet_options(3));
  trainer.fit(module, counted(2));
  CHECK(module.epochs == Integers{0, 1, 2});
  CHECK(module.steps == 6);
  CHECK(get_lrs(*trainer.optimizers().at(0)).at(0) == 1.0 / 64);
}

TEST_CASE("a schedule of an optimizer that configure_optimizers does not return is an error") {
  ScriptedLine module;
  module.optimizers = [kept = std::shared_ptr<torch::optim::SGD>()](auto& self) mutable -> OptimizerSetups {
    kept = std::make_shared<torch::optim::SGD>(self.parameters(), 1.0);
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 1.0),
            {{.scheduler = std::make_shared<StepLr>(*kept, StepLrOptions{.step_size = 1})}}};
  };
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).fit(module, counted(1)), Catch::Contains("optimizer"));
}

TEST_CASE("a data module's hooks come once an entry point, with its stage, and its loaders when they are needed") {
  struct Data final : DataModule {
    void prepare_data() override { calls += "prepare "; }
    void setup(Stage stage) override { calls += "setup:" + std::string(stage_name(stage)) + " "; }
    void teardown(Stage stage) override { calls += "teardown:" + std::string(stage_name(stage)) + "\n"; }
    LoaderPtr train_dataloader() override { return calls += "train ", counted(2); }
    LoaderList val_dataloaders() override { return calls += "val ", LoaderList{counted(2)}; }
    LoaderList test_dataloaders() override { return calls += "test ", LoaderList{counted(2)}; }
    LoaderList predict_dataloaders() override { return calls += "predict ", LoaderList{counted(2)}; }
    std::string calls;
  } data;
  ScriptedLine module;
  Trainer trainer(quiet({.max_epochs = 2, .num_sanity_val_steps = 1}));
  trainer.fit(module, data);
  trainer.validate(module, data, {.verbose = false});
  trainer.test(module, data, {.verbose = false});
  trainer.predict(module, data);
  CHECK(data.calls ==
        "prepare setup:train val train teardown:train\nprepare setup:validate val teardown:validate\n"
        "prepare setup:test test teardown:test\nprepare setup:predict predict teardown:predict\n");
}

TEST_CASE("loaders of an evaluation are told which epoch it is") {
  struct Told final : FixedLoader {
    using FixedLoader::FixedLoader;
    void start_epoch(std::int64_t epoch) override {
      epochs.push_back(epoch);
      FixedLoader::start_epoch(epoch);
    }
    Integers epochs;
  };
  const auto train = std::make_shared<Told>(std::vector<Batch>{Batch{{"x", torch::ones({1})}}});
  const auto validation = std::make_shared<Told>(std::vector<Batch>{Batch{{"x", torch::ones({1})}}});
  ScriptedLine module;
  Trainer trainer(quiet({.max_epochs = 3, .num_sanity_val_steps = 1}));
  trainer.fit(module, train, {validation});
  CHECK(train->epochs == Integers{0, 1, 2});
  CHECK(validation->epochs == Integers{0, 0, 1, 2});
}

TEST_CASE("a share of data of unknown length is an error that names the option, in each stage") {
  ScriptedLine module;
  const auto stream = [] { return counted(4, 1, /*knows_size=*/false); };
  const auto error = [&](TrainerOptions options, const std::function<void(Trainer&)>& run) {
    Trainer trainer(quiet(std::move(options)));
    return error_of<Error>([&] { run(trainer); });
  };
  const auto fit = [&](Trainer& trainer) { trainer.fit(module, stream(), {stream()}); };
  CHECK_THAT(error({.max_epochs = 1, .limit_train_batches = 0.5}, fit), Catch::Contains("limit_train_batches"));
  CHECK_THAT(error({.max_epochs = 1, .limit_val_batches = 0.5}, fit), Catch::Contains("limit_val_batches"));
  CHECK_THAT(error({.max_epochs = 1, .val_check_interval = 0.5}, fit), Catch::Contains("val_check_interval"));
  CHECK_THAT(error({.limit_test_batches = 0.5}, [&](Trainer& trainer) { trainer.test(module, {stream()}); }),
             Catch::Contains("limit_test_batches"));
  CHECK_THAT(error({.limit_predict_batches = 0.5}, [&](Trainer& trainer) { trainer.predict(module, {stream()}); }),
             Catch::Contains("limit_predict_batches"));
  // All of it, and none, are shares of any length.
  CHECK(error({.max_epochs = 1, .limit_train_batches = 1.0, .limit_val_batches = 0.0, .val_check_interval = 1.0}, fit).empty());
}

TEST_CASE("an epoch in which a stream has nothing counts as one, without steps, and data that never has any is an error") {
  struct Once final : BatchLoader {
    explicit Once(int batches) : of_first(batches) {}
    std::optional<std::int64_t> size() const override { return std::nullopt; }
    void start_epoch(std::int64_t epoch) override { left = epoch == 0 ? of_first : 0; }
    std::optional<Batch> next() override {
      return left-- > 0 ? std::optional<Batch>(torch::ones({1}, torch::kDouble)) : std::nullopt;
    }
    int of_first, left = 0;
  };
  ScriptedLine module;
  TrainerOptions options = quiet_options(2);
  options.log_level = LogLevel::kError;
  Trainer trainer(options);
  trainer.fit(module, std::make_shared<Once>(2));
  CHECK(trainer.global_step() == 2);
  CHECK(trainer.current_epoch() == 2);
  CHECK_THROWS_WITH(Trainer(options).fit(module, std::make_shared<Once>(0)), Catch::Contains("nothing to train on"));
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

TEST_CASE("a module's callbacks come once, however many entry points a Trainer runs") {
  struct Brings final : ScriptedLine {
    std::vector<std::shared_ptr<Callback>> configure_callbacks() override { return {counts}; }
    std::shared_ptr<Callback> counts;
  } module;
  std::int64_t calls = 0;
  module.counts = std::make_shared<LambdaCallback>(LambdaCallbackOptions{.setup = [&](Trainer&, Module&, Stage) { ++calls; }});
  Trainer trainer(quiet_options(1));
  trainer.fit(module, counted(1), {counted(1)});
  const std::size_t after_fit = trainer.callbacks().size();
  for (int again = 0; again < 2; ++again) {
    trainer.test(module, {counted(1)}, {.verbose = false});
    trainer.validate(module, {counted(1)}, {.verbose = false});
  }
  CHECK(calls == 5);
  CHECK(trainer.callbacks().size() == after_fit);
}

TEST_CASE("a checkpoint of a finished fit has the next epoch's number, and training goes on from there") {
  const TemporaryFolder folder;
  ScriptedLine module;
  Trainer first(quiet_options(2));
  first.fit(module, counted(2));
  first.save_checkpoint(folder / "a.ckpt");
  const Value manifest = Checkpoint::load_manifest(folder / "a.ckpt");
  CHECK(manifest.at("epoch") == Value(2));
  CHECK(manifest.at("global_step") == Value(4));
  ScriptedLine resumed;
  Integers at_start;
  resumed.on["on_train_start"] = [&](auto& self, auto) { at_start = {self.current_epoch(), self.global_step()}; };
  Trainer second(quiet_options(4));
  second.fit(resumed, counted(2), LoaderList{}, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK(at_start == Integers{2, 4});
  CHECK(second.current_epoch() == 4);
  CHECK(second.global_step() == 8);
}

TEST_CASE("callbacks see the checkpoint of an evaluation, and their states are those of training") {
  struct Kept final : Callback {
    Value state_dict() const override { return Value::Map{{"restored", restored}}; }
    void load_state_dict(const Value&) override { loaded = true; }
    void on_load_checkpoint(Trainer&, Module&, const Checkpoint& checkpoint) override {
      restored = checkpoint.manifest.at("callbacks").at("Kept").at("restored").as_bool();
    }
    bool restored = false, loaded = false;
  };
  const TemporaryFolder folder;
  const RunOptions run{.ckpt_path = (folder / "a.ckpt").string(), .verbose = false};
  ScriptedLine module;
  const auto saved = std::make_shared<Kept>();
  saved->restored = true;
  Trainer first(quiet({.max_epochs = 1, .callbacks = {saved}}));
  first.fit(module, counted(1));
  first.save_checkpoint(folder / "a.ckpt");
  for (const char* stage : {"validate", "test", "predict"}) {
    INFO(stage);
    const auto kept = std::make_shared<Kept>();
    Trainer trainer(quiet({.callbacks = {kept}}));
    if (stage[0] == 'v') trainer.validate(module, {counted(1)}, run);
    if (stage[0] == 't') trainer.test(module, {counted(1)}, run);
    if (stage[0] == 'p') trainer.predict(module, {counted(1)}, run);
    CHECK(kept->restored);
    CHECK_FALSE(kept->loaded);
  }
}

TEST_CASE("a plateau looks at the newest value there is, also after epochs that do not validate") {
  ScriptedLine module;
  const Doubles scores{3, 2, 2.5};
  std::size_t at = 0;
  module.on["on_validation_epoch_end"] = [&](auto& self, auto) { self.log("val_loss", scores.at(at++)); };
  bool strict = GENERATE(true, false);
  module.optimizers = [&](auto& self) -> OptimizerSetups {
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 1.0),
            ReduceLrOnPlateau::Options{.factor = 0.5, .patience = 0},
            {.monitor = "val_loss", .strict = strict}};
  };
  TrainerOptions options = quiet({.max_epochs = 6, .check_val_every_n_epoch = 2});
  options.log_level = LogLevel::kError;
  Trainer trainer(options);
  const auto fit = [&] { trainer.fit(module, counted(1), {counted(1)}); };
  if (strict) {
    CHECK_THROWS_WITH(fit(), Catch::Contains("val_loss"));
    return;
  }
  fit();
  // Steps: 3, 3 (bad), 2, 2 (bad), 2.5 (bad).
  CHECK(get_lrs(*trainer.optimizers().at(0)).at(0) == 1.0 / 8);
}

TEST_CASE("a plateau of steps looks every so many batches") {
  ScriptedLine module;
  const Doubles losses{5, 6, 4, 4, 3, 7, 7, 7};
  module.on["training_step"] = [&](auto& self, std::int64_t index) {
    self.log("loss", losses.at(static_cast<std::size_t>(index)));
  };
  module.optimizers = [&](auto& self) -> OptimizerSetups {
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 1.0),
            ReduceLrOnPlateau::Options{.factor = 0.5, .patience = 0},
            {.interval = Interval::kStep, .frequency = 2, .monitor = "loss"}};
  };
  Trainer trainer(quiet_options(1));
  trainer.fit(module, counted(8));
  // Looks at 6, 4, 7 (bad), 7 (bad).
  CHECK(get_lrs(*trainer.optimizers().at(0)).at(0) == 0.25);
}

TEST_CASE("gradients of a window are clipped once, as their mean") {
  const auto [algorithm, expected] = GENERATE(
      table<GradientClipAlgorithm, double>({{GradientClipAlgorithm::kNorm, -2 - 1}, {GradientClipAlgorithm::kValue, -2 - 1}}));
  ScriptedLine module;
  const auto loader = std::make_shared<FixedLoader>(std::vector<Batch>{
      Batch{{"x", torch::full({1}, 1.0, torch::kDouble)}}, Batch{{"x", torch::full({1}, 9.0, torch::kDouble)}},
      Batch{{"x", torch::full({1}, 8.0, torch::kDouble)}}, Batch{{"x", torch::full({1}, -6.0, torch::kDouble)}}});
  Trainer(
      quiet({.max_epochs = 1, .accumulate_grad_batches = 2, .gradient_clip_val = 2.0, .gradient_clip_algorithm = algorithm}))
      .fit(module, loader);
  CHECK(module.value() == Approx(expected).epsilon(1e-6));
}

TEST_CASE("intervals are shares of what limits leave of an epoch") {
  ScriptedLine module;
  Integers after;
  module.on["on_validation_start"] = [&](auto& self, auto) { after.push_back(static_cast<std::int64_t>(self.seen.size())); };
  Trainer(quiet({.max_epochs = 1, .limit_train_batches = 0.3, .val_check_interval = 0.5}))
      .fit(module, counted(64), {counted(1)});
  CHECK(after == Integers{9, 18});
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
  if (stops) {
    module.on["training_step"] = [](auto& self, std::int64_t index) {
      if (index == 2) self.trainer().stop();
    };
  } else {
    module.on["on_train_batch_start"] = [](auto& self, std::int64_t index) {
      if (index == 3) self.trainer().skip_epoch();
    };
  }
  Trainer trainer(quiet({.max_epochs = 2, .accumulate_grad_batches = 2}));
  trainer.fit(module, counted(8));
  CHECK(module.seen == (stops ? Doubles{1, 2, 3} : Doubles{1, 2, 3, 1, 2, 3}));
  CHECK(trainer.global_step() == (stops ? 1 : 2));
  CHECK(module.value() == (stops ? -1.5 : -3));
}

TEST_CASE("a run that resumes behind max_epochs trains nothing, and has the checkpoint's weights") {
  const TemporaryFolder folder;
  ScriptedLine module;
  Trainer first(quiet_options(4));
  first.fit(module, counted(2));
  first.save_checkpoint(folder / "a.ckpt");
  ScriptedLine resumed;
  Trainer second(quiet_options(1));
  second.fit(resumed, counted(2), LoaderList{}, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK(second.current_epoch() == 4);
  CHECK(resumed.seen.empty());
  CHECK(resumed.value() == -12);
}
