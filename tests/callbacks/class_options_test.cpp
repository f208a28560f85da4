#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>

#include "levin/callbacks/early_stopping.h"
#include "levin/callbacks/gradient_accumulation_scheduler.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/model_summary.h"
#include "levin/callbacks/on_exception_checkpoint.h"
#include "levin/callbacks/progress_bar.h"
#include "levin/callbacks/timer.h"
#include "levin/core/base/error.h"
#include "levin/core/config/options.h"
#include "levin/core/trainer.h"
#include "levin/data/dataset.h"
#include "levin/data/table_data_module.h"
#include "levin/loggers/csv_logger.h"
#include "levin/optim/cyclic_lr_schedulers.h"
#include "levin/optim/lr_schedulers.h"
#include "levin/strategies/gradients/ddp.h"

using levin::ModelCheckpointOptions;
using levin::Value;

namespace levin {
namespace {

struct SavesInItsOwnWay : Callback {
  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
};
LEVIN_REGISTER_CALLBACK(SavesInItsOwnWay, "Saves without being one of the built-in classes");

struct Wrong {
  std::string error;
  std::function<void()> make;
};

void check_all(const std::vector<Wrong>& table) {
  for (const Wrong& wrong : table) {
    CAPTURE(wrong.error);
    CHECK_THROWS_AS(wrong.make(), ConfigError);
    CHECK_THROWS_WITH(wrong.make(), wrong.error);
  }
}

/// With two devices, which a Trainer would start ranks for.
std::function<void()> trainer(const std::function<void(TrainerOptions&)>& change) {
  return [change] {
    TrainerOptions options{.accelerator = "cpu", .devices = 2};
    change(options);
    Trainer trainer(options);
  };
}

Component<Callback> named(const char* class_path, const char* key, Value value) {
  Value arguments(Value::Map{});
  arguments[key] = std::move(value);
  return {Value(class_path), std::move(arguments)};
}

TEST_CASE("a Trainer with wrong options starts no ranks") {
  check_all(
      {{"Trainer: accumulate_grad_batches: must be at least 1, got int 0; 1 steps after each batch",
        trainer([](TrainerOptions& options) { options.accumulate_grad_batches = 0; })},
       {"Trainer: uneven: must be one of 'pad', 'drop', 'keep', got string ''",
        trainer([](TrainerOptions& options) { options.uneven = static_cast<Uneven>(9); })},
       {"Trainer: max_time: got string '-5.0 seconds', which is not a duration. Write days, hours, minutes and seconds: "
        "DD:HH:MM:SS.",
        trainer([](TrainerOptions& options) { options.max_time = std::chrono::seconds(-5); })},
       {"Trainer: min_epochs is above max_epochs", trainer([](TrainerOptions& options) {
          options.min_epochs = 3;
          options.max_epochs = 2;
        })},
       {"Trainer: limit_val_batches: a share is between 0.0 and 1.0, not 1.5; a number, such as 2 batches, is written without "
        "a decimal point",
        trainer([](TrainerOptions& options) { options.limit_val_batches = 1.5; })},
       {"Trainer: callbacks: EarlyStopping: missing key 'monitor' (string: Metric to watch)\n"
        "Trainer: callbacks: EarlyStopping: patience: must be at least 0, got int -1; a run without EarlyStopping stops for no "
        "metric",
        trainer([](TrainerOptions& options) { options.callbacks = {named("EarlyStopping", "patience", -1)}; })},
       {"Trainer: callbacks: holds an empty entry; remove it",
        trainer([](TrainerOptions& options) { options.callbacks = {Component<Callback>()}; })},
       {"Trainer: logger: CSVLogger: every_n_steps: must be at least 1, got int 0", trainer([](TrainerOptions& options) {
          Value arguments(Value::Map{});
          arguments["every_n_steps"] = 0;
          options.logger = Loggers(Component<Logger>(Value("CSVLogger"), arguments));
        })},
       {"Trainer: enable_progress_bar is false, but callbacks hold a ProgressBar; remove one of the two",
        trainer([](TrainerOptions& options) {
          options.enable_progress_bar = false;
          options.callbacks = {std::make_shared<ProgressBar>()};
        })},
       {"Trainer: enable_checkpointing is false, but callbacks hold OnExceptionCheckpoint; remove one of the two",
        trainer([](TrainerOptions& options) {
          options.enable_checkpointing = false;
          options.callbacks = {std::make_shared<OnExceptionCheckpoint>(OnExceptionCheckpointOptions{.dirpath = "checkpoints"})};
        })},
       {"Trainer: enable_checkpointing is false, but callbacks hold SavesInItsOwnWay; remove one of the two",
        trainer([](TrainerOptions& options) {
          options.enable_checkpointing = false;
          options.callbacks = {Component<Callback>("SavesInItsOwnWay")};
        })}});
}

TEST_CASE("a class that is made in C++ with wrong options says which") {
  const auto dataset = std::make_shared<TensorDataset>(Batch{{"x", torch::zeros({4, 1})}});
  torch::optim::SGD sgd({torch::zeros({1}, torch::requires_grad())}, torch::optim::SGDOptions(0.1).momentum(0.9));
  check_all(
      {{"EarlyStopping: monitor: is an empty string", [] { EarlyStopping(EarlyStoppingOptions{}); }},
       {"EarlyStopping: step and epoch grow however training goes, so that nothing is to be seen from them: end it with "
        "max_steps, max_epochs or max_time, and keep the newest checkpoints with ModelCheckpoint's monitor",
        [] { EarlyStopping({.monitor = "epoch"}); }},
       {"EarlyStopping: patience: must be at least 0, got int -1; a run without EarlyStopping stops for no metric",
        [] { EarlyStopping({.monitor = "m", .patience = -1}); }},
       {"ModelCheckpoint: every_n_train_steps, every_n_epochs and train_time_interval exclude each other; use one callback for "
        "each",
        [] { ModelCheckpoint({.every_n_train_steps = 5, .train_time_interval = std::chrono::minutes(10)}); }},
       {"ModelCheckpoint: without a monitor nothing says which checkpoints are best: set 'monitor', or save_top_k to -1, 0 or "
        "1; with monitor: step and mode: max the newest are kept",
        [] { ModelCheckpoint({.save_top_k = 2}); }},
       {"Timer: interval: must be one of 'step', 'epoch', got string ''",
        [] { Timer({.interval = static_cast<Interval>(5)}); }},
       {"GradientAccumulationScheduler: scheduling: is an empty map",
        [] { GradientAccumulationScheduler(GradientAccumulationSchedulerOptions{}); }},
       {"ModelSummary: max_depth: must be at least -1, got int -2; -1 shows all", [] { ModelSummary({.max_depth = -2}); }},
       {"ProgressBar: refresh_rate: must be at least 0, got int -1; 0 shows nothing",
        [] { ProgressBar({.refresh_rate = -1}); }},
       {"OnExceptionCheckpoint: dirpath: is an empty string", [] { OnExceptionCheckpoint(OnExceptionCheckpointOptions{}); }},
       {"CSVLogger: name is '../a', which leads out of save_dir: say with save_dir where to write",
        [] { CsvLogger({.name = "../a"}); }},
       {"strategy ddp: bucket_cap_mb: must be at least 0.001, got float 0.0", [] { DdpStrategy({.bucket_cap_mb = 0}); }},
       {"TableDataModule: path: is an empty string", [] { TableDataModule(TableDataOptions{}); }},
       {"DataLoader: batch_size: must be at least 1, got int 0", [&] { DataLoader(dataset, {.batch_size = 0}); }},
       {"DataLoader: shuffle and sampler exclude each other; the sampler alone decides the order",
        [&] { DataLoader(dataset, {.shuffle = true, .sampler = std::make_shared<RandomSampler>()}); }},
       {"StepLR: step_size: must be at least 1, got int 0", [&] { StepLr(sgd, {.step_size = 0}); }},
       {"OneCycleLR: div_factor: must be above 0, got float 0.0",
        [&] { OneCycleLr(sgd, {.max_lr = 0.1, .total_steps = 5, .div_factor = 0}); }},
       {"ReduceLROnPlateau: factor: must be at least 0 and below 1, got float 1.0",
        [&] { ReduceLrOnPlateau(sgd, {.factor = 1.0}); }}});
}

}  // namespace
}  // namespace levin

TEST_CASE("ModelCheckpoint's options are read and written as in YAML") {
  Value map(Value::Map{});
  map["monitor"] = "val_loss";
  map["save_last"] = "link";
  map["train_time_interval"] = "00:01:00:00";
  map["every_n_epochs"] = Value();
  const auto options = levin::read_options<ModelCheckpointOptions>(map);
  CHECK(options.monitor == "val_loss");
  CHECK(options.save_last.link());
  CHECK(options.train_time_interval == std::chrono::hours(1));
  CHECK_FALSE(options.every_n_epochs.has_value());
  const Value written = levin::write_options(options);
  CHECK(written.at("save_last") == Value("link"));
  CHECK(levin::write_options(levin::read_options<ModelCheckpointOptions>(written)) == written);
}

TEST_CASE("save_last takes true, false, link and null") {
  const auto read = [](Value value) {
    Value map(Value::Map{});
    map["save_last"] = std::move(value);
    return levin::read_options<ModelCheckpointOptions>(map).save_last;
  };
  CHECK(read(true).enabled());
  CHECK_FALSE(read(true).link());
  CHECK_FALSE(read(false).enabled());
  CHECK_FALSE(read(Value()).enabled());
  CHECK(read("link").link());
  CHECK_THROWS_AS(read("copy"), levin::ConfigError);
  CHECK_THROWS_AS(read(1), levin::ConfigError);
}
