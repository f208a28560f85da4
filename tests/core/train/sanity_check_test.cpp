#include <levin/levin.h>

#include <catch2/catch.hpp>

#include "support/file_text.h"
#include "support/recording.h"
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
    metrics_at_start = trainer.callback_metrics();
    shown_at_start = trainer.progress_bar_metrics();
    logged_at_start = trainer.logged_metrics();
    samples_at_start = evaluation_of_all_ranks(trainer).samples;
  }
  std::int64_t checked = 0;
  std::int64_t counted = 0;
  MetricMap metrics_at_start;
  MetricMap shown_at_start;
  MetricMap logged_at_start;
  std::int64_t samples_at_start = -1;
};

class RowKeeper final : public Logger {
 public:
  void log_metrics(const MetricRow& row) override { rows.push_back(to_json(row)); }
  std::vector<std::string> rows;
};

struct Outcome {
  std::vector<at::Tensor> weights;
  std::vector<std::string> rows;
  Value stopping;
  std::string saving;
  MetricMap metrics;
  std::int64_t counted = 0;
  at::Tensor random;
};

Outcome run(int sanity_steps) {
  const TemporaryFolder folder;
  const auto counting = std::make_shared<Counting>();
  const auto logger = std::make_shared<RowKeeper>();
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
  const LoaderPtr train = loader(8);
  const LoaderPtr validation = loader(6);
  torch::manual_seed(5);
  trainer.fit(module, train, validation);
  CHECK((counting->checked > 0) == (sanity_steps != 0));
  CHECK(counting->metrics_at_start == MetricMap());
  CHECK(counting->shown_at_start == MetricMap());
  CHECK(counting->logged_at_start == MetricMap());
  CHECK(counting->samples_at_start == 0);
  Outcome outcome;
  for (const at::Tensor& parameter : module.parameters()) outcome.weights.push_back(parameter.detach().clone());
  outcome.rows = logger->rows;
  outcome.stopping = stopping->state_dict();
  outcome.saving = std::to_string(checkpoint->best_model_score().value_or(-1)) +
                   std::filesystem::path(checkpoint->best_model_path()).filename().string();
  outcome.metrics = trainer.callback_metrics();
  outcome.counted = counting->counted;
  outcome.random = torch::rand({4});
  return outcome;
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
  const Outcome without = run(0);
  for (const int steps : {1, 2, -1}) {
    INFO("num_sanity_val_steps " << steps);
    const Outcome with = run(steps);
    for (std::size_t index = 0; index < without.weights.size(); ++index) {
      CHECK(torch::equal(with.weights[index], without.weights[index]));
    }
    CHECK(with.rows == without.rows);
    CHECK(with.stopping == without.stopping);
    CHECK(with.saving == without.saving);
    CHECK(with.metrics == without.metrics);
    CHECK(with.counted == without.counted);
    CHECK(torch::equal(with.random, without.random));
  }
}

TEST_CASE("monitors are doubted at once: a mode against the metric's name, and a name that the sanity check lacks") {
  struct WithPlateau : RecordingModule {
    using RecordingModule::RecordingModule;
    OptimizerSetups make_optimizers() override {
      OptimizerSetup setup{.optimizer = std::make_shared<torch::optim::SGD>(parameters(), 0.1)};
      const ReduceLrOnPlateauOptions largest{.mode = MonitorMode::kMax};
      setup.schedulers.push_back(
          {.scheduler = std::make_shared<ReduceLrOnPlateau>(*setup.optimizer, largest), .monitor = "val_error"});
      return setup;
    }
  };
  HookTrace trace;
  WithPlateau module(trace);
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options();
  options.num_sanity_val_steps = 1;
  options.log_file = folder.path() / "console.txt";
  options.enable_checkpointing = true;
  options.callbacks = {
      std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "val_los"}),
      std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = folder.path() / "saved", .monitor = "val_acc"})};
  Trainer trainer(options);
  // It is certain when the first epoch has ended; none but training could have logged it until then.
  CHECK_THROWS_WITH(
      trainer.fit(module, FixedLoader::of_rows(2, 2), {FixedLoader::of_rows(2, 2)}),
      Catch::Contains("EarlyStopping watches 'val_los', which no rank has logged. Did you mean 'val_loss'? Log it,"));
  const std::string console = read_text(folder.path() / "console.txt");
  CHECK_THAT(console,
             Catch::Contains("EarlyStopping monitors 'val_los', which validation did not log before training. Did you "
                             "mean 'val_loss'?") &&
                 Catch::Contains("ModelCheckpoint monitors 'val_acc', which validation did not log before training.") &&
                 Catch::Contains("A learning-rate scheduler monitors 'val_error', which validation did not log") &&
                 Catch::Contains("A learning-rate scheduler: mode is max, but for a metric called 'val_error'") &&
                 Catch::Contains("ModelCheckpoint: mode is min, but for a metric called 'val_acc'") &&
                 !Catch::Contains("EarlyStopping: mode is"));
}
