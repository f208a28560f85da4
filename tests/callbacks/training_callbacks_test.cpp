#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <fstream>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/builtin_callbacks.h"
#include "levin/callbacks/early_stopping.h"
#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/learning_rates.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/lr_schedulers.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Fits with one callback and gives the number of epochs that ran.
std::int64_t epochs_of_fit(const std::shared_ptr<Callback>& callback, std::vector<double> scores, std::int64_t max_epochs,
                           const std::function<void(TrainerOptions&)>& change = {}) {
  ScriptedRun run(max_epochs, {callback});
  if (change) change(run.options);
  ScriptedModule module(std::move(scores));
  return run.fit(module, 2, {FixedLoader::of_rows(1, 1)})->current_epoch();
}

}  // namespace

TEST_CASE("early stopping ends training after its patience, unless the metric recovers before min_epochs") {
  struct Row {
    std::int64_t patience;
    std::vector<double> scores;
    std::function<void(TrainerOptions&)> change;
    std::int64_t epochs;
    double best;
  };
  for (const Row& row :
       std::vector<Row>{{2, {3, 2, 2, 2, 1}, {}, 4, 2.0},
                        // Out of patience in epoch 1, better again from epoch 2 on, out of patience for good in epoch 6.
                        {1, {3, 3, 2, 1.5, 1, 0.5, 0.5}, [](auto& options) { options.min_epochs = 4; }, 7, 0.5},
                        {3, {3, 2, 2, 2, 2}, [](auto& options) { options.val_check_interval = Limit(0.5); }, 3, 2.0}}) {
    CAPTURE(row.scores);
    const auto stopping =
        std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "val_loss", .patience = row.patience});
    CHECK(epochs_of_fit(stopping, row.scores, 10, row.change) == row.epochs);
    CHECK(stopping->stopped_epoch() == row.epochs - 1);
    CHECK(stopping->stopping_reason() == EarlyStoppingReason::kPatienceExhausted);
    CHECK(stopping->best_score() == row.best);
  }
}

TEST_CASE("a missing metric is an error that names what there is, or is skipped") {
  EarlyStoppingOptions options{.monitor = "val_los"};
  CHECK_THROWS_WITH(epochs_of_fit(std::make_shared<EarlyStopping>(options), {1}, 3),
                    Catch::Contains("'val_los'") && Catch::Contains("'val_loss'"));
  CHECK_NOTHROW(epochs_of_fit(std::make_shared<EarlyStopping>(options), {1}, 3, [](auto& dry) { dry.fast_dev_run = 1; }));
  options.strict = false;
  CHECK(epochs_of_fit(std::make_shared<EarlyStopping>(options), {1}, 3) == 3);
}

TEST_CASE("the timer ends training when its time is up") {
  const auto timer = std::make_shared<Timer>(TimerOptions{.duration = std::chrono::seconds(0), .verbose = false});
  CHECK(epochs_of_fit(timer, {1}, 5) == 0);
  CHECK(*timer->time_remaining() <= 0);

  const auto resumed = std::make_shared<Timer>(TimerOptions{.duration = std::chrono::minutes(10)});
  Value state(Value::Map{});
  state["time_elapsed"]["train"] = 500.0;
  resumed->load_state_dict(state);
  CHECK(resumed->time_elapsed() == 500.0);
  CHECK(*resumed->time_remaining() == 100.0);
  CHECK(resumed->state_dict().at("time_elapsed").at("train") == Value(500.0));
  CHECK(epochs_of_fit(resumed, {1}, 2) == 2);
  CHECK(resumed->time_elapsed() > 500.0);
  CHECK(resumed->time_elapsed(Stage::kValidate) > 0.0);
}

TEST_CASE("accumulation changes at the epochs given") {
  const GradientAccumulationScheduler scheduler({.scheduling = {{2, 4}, {5, 8}}});
  for (const auto& [epoch, batches] : AccumulationSchedule{{0, 1}, {1, 1}, {2, 4}, {4, 4}, {100, 8}}) {
    CHECK(scheduler.accumulate_grad_batches(epoch) == batches);
  }
  for (const AccumulationSchedule& wrong :
       {AccumulationSchedule{}, AccumulationSchedule{{-1, 2}}, AccumulationSchedule{{0, 0}}}) {
    CHECK_THROWS_AS(GradientAccumulationScheduler({.scheduling = wrong}), ConfigError);
  }

  Value init_args(Value::Map{});
  init_args["scheduling"]["0"] = 1;
  init_args["scheduling"]["1"] = 2;
  std::vector<std::int64_t> steps;
  const auto watch = std::make_shared<LambdaCallback>(
      LambdaCallbackOptions{.on_train_epoch_end = [&](Trainer& trainer, Module&) { steps.push_back(trainer.global_step()); }});
  ScriptedRun run(2, {Registry<Callback>::instance().make("GradientAccumulationScheduler", init_args), watch});
  ScriptedModule module;
  run.fit(module, 4);
  CHECK(steps == std::vector<std::int64_t>{4, 6});
  run.options.accumulate_grad_batches = 2;
  CHECK_THROWS_WITH(run.fit(module, 4), Catch::Contains("accumulate_grad_batches: 2"));
  init_args["scheduling"] = Value(Value::Map{});
  init_args["scheduling"]["first"] = 1;
  CHECK_THROWS_WITH(Registry<Callback>::instance().make("GradientAccumulationScheduler", init_args),
                    Catch::Contains("'first'"));
}

TEST_CASE("learning rates reach the loggers and callback_metrics") {
  class Scheduled final : public ScriptedModule {
   public:
    OptimizerSetups configure_optimizers() override {
      const auto sgd = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.4).momentum(0.9));
      return {sgd, {{.scheduler = std::make_shared<StepLr>(*sgd, StepLrOptions{.step_size = 1, .gamma = 0.5})}}};
    }
  };
  const auto logger = std::make_shared<RowLogger>();
  const auto monitor = std::make_shared<LearningRateMonitor>(LearningRateMonitorOptions{.log_momentum = true});
  ScriptedRun run(3, {monitor});
  run.options.logger = logger;
  Scheduled module;
  const auto trainer = run.fit(module);
  CHECK(trainer->callback_metrics().at("lr-SGD") == 0.1);
  std::vector<std::pair<std::int64_t, double>> rows;
  for (const MetricRow& row : logger->rows) {
    if (const auto rate = row.values.find("lr-SGD"); rate != row.values.end()) {
      rows.emplace_back(row.step, rate->second);
      CHECK(row.values.at("lr-SGD-momentum") == 0.9);
    }
  }
  CHECK(rows == std::vector<std::pair<std::int64_t, double>>{{0, 0.4}, {2, 0.2}, {4, 0.1}});

  run.options.logger = false;
  CHECK_THROWS_AS(run.fit(module), ConfigError);
}

TEST_CASE("a rate keeps its history when its group gets company, as in Lightning, and may have a prefix") {
  const auto grows =
      std::make_shared<LambdaCallback>(LambdaCallbackOptions{.on_train_epoch_start = [](Trainer& trainer, Module&) {
        if (trainer.current_epoch() == 1) trainer.optimizers()[0]->add_param_group({{torch::ones({1})}});
      }});
  const std::string prefix = GENERATE("", "optim/");
  const auto monitor = std::make_shared<LearningRateMonitor>(LearningRateMonitorOptions{.prefix = prefix});
  ScriptedRun run(3, {grows, monitor});
  const auto logger = std::make_shared<RowLogger>();
  run.options.logger = logger;
  ScriptedModule module;
  run.fit(module);
  Value counts(Value::Map{});
  for (const auto& [name, rates] : monitor->lrs()) {
    counts[name.substr(prefix.size())] = static_cast<std::int64_t>(rates.size());
    CHECK(logger->rows.back().values.contains(name));
  }
  const std::string file = read_text(LEVIN_SOURCE_DIR "/tests/core/train/flag_references.json");
  CHECK(counts == parse_json(file).at("grown_rates"));
}

TEST_CASE("a callback gets others by class, the present learning rates and the reason of the end") {
  class TwoOptimizers final : public ScriptedModule {
   public:
    TwoOptimizers() { set_automatic_optimization(false); }
    StepOutput training_step(const Batch&, std::int64_t) override { return {}; }
    OptimizerSetups configure_optimizers() override {
      const auto first = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.4));
      const auto second = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(0.2));
      second->add_param_group(torch::optim::OptimizerParamGroup({torch::ones({1})}));
      const auto scheduler = std::make_shared<StepLr>(*second, StepLrOptions{.step_size = 1, .gamma = 0.5});
      const auto adam = std::make_shared<torch::optim::Adam>(parameters(), torch::optim::AdamOptions(0.1));
      const auto last = std::make_shared<torch::optim::SGD>(second->param_groups(), torch::optim::SGDOptions(0.2));
      return std::vector<OptimizerSetup>{{first}, {second, {{.scheduler = scheduler, .name = "second"}}}, {adam}, {last}};
    }
  };
  class Looks final : public Callback {
   public:
    void on_train_start(Trainer& trainer, Module&) override {
      rates = learning_rates(trainer);
      reason_while_running = trainer.stop_reason();
    }
    MetricMap rates;
    std::string reason_while_running;
  };
  const auto looks = std::make_shared<Looks>();
  const auto timer = std::make_shared<Timer>();
  const ScriptedRun run(2, {timer, looks, std::make_shared<Looks>()});
  Trainer trainer(run.options);
  CHECK(trainer.stop_reason().empty());
  CHECK(trainer.callback<Timer>() == timer.get());
  CHECK(trainer.callbacks_of<Looks>().size() == 2);
  CHECK(trainer.callback<Looks>() == looks.get());
  CHECK(trainer.callback<EarlyStopping>() == nullptr);

  TwoOptimizers module;
  trainer.fit(module, FixedLoader::of_rows(2, 1));
  // Lightning's LearningRateMonitor calls them so.
  CHECK(looks->rates == MetricMap{{"second/pg1", 0.2},
                                  {"second/pg2", 0.2},
                                  {"lr-SGD", 0.4},
                                  {"lr-Adam", 0.1},
                                  {"lr-SGD-1/pg1", 0.2},
                                  {"lr-SGD-1/pg2", 0.2}});
  CHECK(trainer.stop_reason() == "max_epochs=2 reached");

  trainer.validate(module, {FixedLoader::of_rows(1, 1)});
  CHECK(trainer.stop_reason() == "max_epochs=2 reached");
  CHECK(looks->reason_while_running.empty());
}

TEST_CASE("what asked for the end is its reason, and a fit that fails has none") {
  class Tired final : public Callback {
    void on_train_epoch_end(Trainer& trainer, Module&) override { trainer.stop("tired"); }
  };
  ScriptedModule module;
  CHECK(ScriptedRun(3, {std::make_shared<Tired>()}).fit(module)->stop_reason() == "tired");
  CHECK(choice_name(EarlyStoppingReason::kPatienceExhausted) == "patience_exhausted");
  const ScriptedRun run(1);
  Trainer failing_trainer(run.options);
  ScriptedModule failing;
  failing.throw_at_batch = 0;
  CHECK_THROWS_WITH(failing_trainer.fit(failing, FixedLoader::of_rows(2, 1)), Catch::Contains("scripted failure"));
  CHECK(failing_trainer.stop_reason().empty());
}

TEST_CASE("a run that fails leaves its state, one that ends well does not") {
  TemporaryFolder folder;
  const auto saving = std::make_shared<OnExceptionCheckpoint>(OnExceptionCheckpointOptions{.dirpath = folder / "failed"});
  ScriptedRun run(1, {saving});
  run.options.enable_checkpointing = true;
  ScriptedModule module;
  module.throw_at_batch = 2;
  CHECK_THROWS_WITH(run.fit(module, 4), "scripted failure");
  REQUIRE(file_names(folder / "failed") == std::set<std::string>{"on_exception.ckpt"});
  CHECK(Checkpoint::load(saving->ckpt_path()).manifest.at("global_step") == Value(2));
  ScriptedModule healthy;
  run.fit(healthy, 4);
  CHECK(file_names(folder / "failed").empty());
  std::ofstream(saving->ckpt_path()) << "another program's";
  run.fit(healthy, 4);
  CHECK(file_names(folder / "failed") == std::set<std::string>{"on_exception.ckpt"});

  for (const char* name : {"../x", "a/../../x", "/tmp/x"}) {
    CHECK_THROWS_WITH(OnExceptionCheckpoint({.dirpath = folder / "failed", .filename = name}),
                      Catch::Contains("leads out of dirpath"));
  }
}

TEST_CASE("built-in callbacks are made by name") {
  Value empty(Value::Map{});
  for (const char* name : {"ModelCheckpoint", "ModelSummary", "LearningRateMonitor", "ProgressBar", "TQDMProgressBar",
                           "RichProgressBar", "Timer", "lightning.pytorch.callbacks.Timer"}) {
    CAPTURE(name);
    CHECK(Registry<Callback>::instance().make(name, empty) != nullptr);
  }
  CHECK_THROWS_WITH(Registry<Callback>::instance().make("EarlyStopping", empty), Catch::Contains("monitor"));
}
