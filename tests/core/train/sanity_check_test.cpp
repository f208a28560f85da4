#include <levin/levin.h>

#include <catch2/catch.hpp>

#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Draws random numbers wherever it can, and logs in every validation.
class Noisy final : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor noise = torch::rand({1}, rank_generator()) + torch::rand({1}, shared_generator());
    const at::Tensor loss = (layer_->forward(torch::dropout(batch[0], 0.5, /*train=*/true)) - noise).pow(2).mean();
    log("loss", loss, {.on_epoch = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    const at::Tensor noise = torch::randn({1}) + torch::randn({1}, rank_generator());
    const at::Tensor loss = (layer_->forward(batch[0]) - noise).pow(2).mean();
    log("val_loss", loss, {.on_step = true, .on_epoch = true});
  }
  void on_validation_epoch_end() override { log("val_noise", torch::rand({1}) + torch::rand({1}, shared_generator())); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::Adam>(parameters(), 0.05); }

 private:
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
};

/// Counts batches of validation, as a user's callback would that ignores the sanity check.
class Counting final : public Callback {
 public:
  void on_validation_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t,
                               std::int64_t) override {
    ++(trainer.sanity_checking() ? checked : counted);
  }
  void on_train_start(Trainer& trainer, Module&) override {
    for (const auto& metrics : {trainer.callback_metrics(), trainer.progress_bar_metrics(), trainer.logged_metrics()})
      CHECK(metrics == MetricMap());
    CHECK(evaluation_of_all_ranks(trainer).samples == 0);
  }
  std::int64_t checked = 0;
  std::int64_t counted = 0;
};

/// The outcome of a fit, each part under its name.
Value::Map run(int sanity_steps) {
  const TemporaryFolder folder;
  const auto counting = std::make_shared<Counting>();
  const auto logger = std::make_shared<RowsOf>();
  const auto stopping = std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "val_loss", .patience = 5});
  const auto checkpoint =
      std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = folder.path(), .monitor = "val_loss"});
  seed_everything(4);
  Noisy module;
  Trainer trainer(quiet({.max_epochs = 3,
                         .logger = logger,
                         .callbacks = {counting, stopping, checkpoint},
                         .num_sanity_val_steps = sanity_steps,
                         .log_every_n_steps = 1}));
  const auto loader = [](std::int64_t samples) {
    return std::make_shared<DataLoader>(
        std::make_shared<TensorDataset>(Batch{{"x", torch::arange(2.0 * samples).reshape({-1, 2}) / 10}}),
        DataLoaderOptions{.batch_size = 2, .shuffle = true});
  };
  torch::manual_seed(5);
  trainer.fit(module, loader(8), {loader(6)});
  CHECK((counting->checked > 0) == (sanity_steps != 0));
  Value::List weights, rows;
  for (const at::Tensor& parameter : module.parameters()) {
    for (std::int64_t index = 0; index < parameter.numel(); ++index)
      weights.emplace_back(parameter.flatten()[index].item<double>());
  }
  for (const MetricRow& row : logger->rows) rows.emplace_back(to_json(row));
  return {{"weights", Value(weights)},
          {"rows", Value(rows)},
          {"stopping", stopping->state_dict()},
          {"best score", Value(checkpoint->best_model_score().value_or(-1))},
          {"best file", Value(std::filesystem::path(checkpoint->best_model_path()).filename().string())},
          {"metrics", Value(to_json(trainer.callback_metrics()))},
          {"counted", Value(counting->counted)},
          {"random", Value(torch::rand({1}).item<double>())}};
}

}  // namespace

TEST_CASE("the sanity check runs no more batches of a loader than validation does, however the limit is written") {
  const auto checked = [](const std::optional<Limit>& limit, std::int64_t steps) {
    const auto counting = std::make_shared<Counting>();
    Noisy module;
    Trainer trainer(
        quiet({.max_epochs = 1, .callbacks = {counting}, .limit_val_batches = limit, .num_sanity_val_steps = steps}));
    trainer.fit(module, FixedLoader::of_rows(1, 2), {FixedLoader::of_rows(100, 2), FixedLoader::of_rows(200, 2)});
    return std::pair(counting->checked, counting->counted);
  };
  using Counts = std::pair<std::int64_t, std::int64_t>;
  CHECK(checked(std::nullopt, 2) == Counts(4, 300));
  CHECK(checked(Limit(0), 2) == Counts(0, 0));
  CHECK(checked(Limit(0.0), 2) == Counts(0, 0));
  CHECK(checked(Limit(0.0), -1) == Counts(0, 0));
  CHECK(checked(Limit(0.01), 2) == Counts(3, 3));
  CHECK(checked(Limit(0.01), -1) == Counts(3, 3));
  CHECK(checked(Limit(0.02), 3) == Counts(5, 6));
  CHECK(checked(Limit(1), 2) == Counts(2, 2));
  CHECK(checked(Limit(5), 2) == Counts(4, 10));
  CHECK(checked(std::nullopt, -1) == Counts(300, 300));
}

TEST_CASE("the sanity check leaves no trace: weights, rows, metrics, callbacks and random numbers are those of a run without") {
  const Value::Map without = run(0);
  for (const int steps : {1, 2, -1}) {
    for (const auto& [name, value] : run(steps)) {
      CAPTURE(steps, name);
      CHECK(value == Value(without).at(name));
    }
  }
}

TEST_CASE("warnings doubt monitors at once: a mode against the metric's name, and a name that the sanity check lacks") {
  struct WithPlateau : RecordingModule {
    using RecordingModule::RecordingModule;
    OptimizerSetups make_optimizers() override {
      return {std::make_shared<torch::optim::SGD>(parameters(), 0.1),
              ReduceLrOnPlateau::Options{.mode = MonitorMode::kMax},
              {.monitor = "val_error"}};
    }
  };
  HookTrace trace;
  WithPlateau module(trace);
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options();
  options.num_sanity_val_steps = 1;
  options.enable_checkpointing = true;
  options.callbacks = {EarlyStopping({.monitor = "val_los"}),
                       ModelCheckpoint({.dirpath = folder.path() / "saved", .monitor = "val_acc"})};
  Trainer trainer(options);
  const std::string warnings = warned_by([&] {
    // It is certain when the first epoch has ended; none but training could have logged it until then.
    CHECK_THROWS_WITH(
        trainer.fit(module, FixedLoader::of_rows(2, 2), {FixedLoader::of_rows(2, 2)}),
        Catch::Contains("EarlyStopping watches 'val_los', which no rank has logged. Did you mean 'val_loss'? Log it,"));
  });
  CHECK_THAT(warnings,
             Catch::Contains("EarlyStopping monitors 'val_los', which validation did not log before training. Did you "
                             "mean 'val_loss'?") &&
                 Catch::Contains("ModelCheckpoint monitors 'val_acc', which validation did not log before training.") &&
                 Catch::Contains("A learning-rate scheduler monitors 'val_error', which validation did not log") &&
                 Catch::Contains("A learning-rate scheduler: mode is max, but for a metric called 'val_error'") &&
                 Catch::Contains("ModelCheckpoint: mode is min, but for a metric called 'val_acc'") &&
                 !Catch::Contains("EarlyStopping: mode is"));
}
