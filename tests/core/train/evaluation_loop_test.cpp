#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <csignal>

#include "levin/core/base/error.h"
#include "levin/core/run/signal_scope.h"
#include "support/recording.h"

using namespace levin;
using namespace levin::test;

namespace {

class Mean : public Module {
 public:
  void validation_step(const Batch& batch, std::int64_t) override { record(batch); }
  void test_step(const Batch& batch, std::int64_t) override { record(batch); }
  Batch predict_step(const Batch& batch, std::int64_t) override { return batch[0] * 2; }

  bool was_training = true;
  bool had_gradients = true;
  bool was_inference = false;

 private:
  void record(const Batch& batch) {
    was_training = dropout_->is_training();
    had_gradients = torch::GradMode::is_enabled();
    was_inference = c10::InferenceMode::is_enabled();
    log("mean", batch[0].mean());
  }
  torch::nn::Dropout dropout_ = register_module("dropout", torch::nn::Dropout(0.5));
};

std::shared_ptr<FixedLoader> rows(const std::vector<std::vector<float>>& batches) {
  std::vector<Batch> made;
  for (const auto& batch : batches) made.push_back(Batch{{"x", torch::tensor(batch)}});
  return std::make_shared<FixedLoader>(std::move(made));
}

}  // namespace

// Uses SIGUSR1: levin leaves SIGTERM to an existing handler, here that of Catch2.
TEST_CASE("a signal that ended a fit leaves out no batch of what its Trainer does next, nor of another that heeds none") {
  struct Signalled : Mean {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      if (is_signalled) raise(SIGUSR1);
      return layer->forward(batch[0]).mean();
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    bool is_signalled = true;
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 1));
  } module;
  const auto validated = [](Trainer& trainer, Module& its_module) {
    return trainer.validate(its_module, {rows({{1, 2}, {6}})}, {.verbose = false}).at(0).at("mean");
  };
  Trainer trainer(quiet({.max_epochs = 1, .process = {.signals = true}}));
  CHECK_THROWS_AS(trainer.fit(module, FixedLoader::of_rows(2, 2)), Interrupted);
  CHECK(trainer.global_step() == 1);
  CHECK(SignalScope::received() == 0);
  CHECK(validated(trainer, module) == 3.0);
  module.is_signalled = false;
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  CHECK(trainer.global_step() > 1);
  Mean plain;
  Trainer heedless(quiet({.process = {.signals = false}}));
  CHECK(validated(heedless, plain) == 3.0);
  // A signal is ending another Trainer's fit.
  const SignalScope other;
  raise(SIGUSR1);
  CHECK(SignalScope::received() == SIGUSR1);
  CHECK(validated(heedless, plain) == 3.0);
}

TEST_CASE("a limit of no batches leaves nothing of any stage, written as a number or as a share") {
  TrainerOptions options = quiet_options();
  options.limit_val_batches = options.limit_test_batches = options.limit_predict_batches = GENERATE(Limit(0), Limit(0.0));
  const bool knows_size = GENERATE(true, false);
  const LoaderList loaders = {std::make_shared<FixedLoader>(std::vector<Batch>{Batch{{"x", torch::ones({2})}}}, knows_size)};
  Mean module;
  Trainer trainer(options);
  CHECK(trainer.validate(module, loaders, {.verbose = false}).empty());
  CHECK(trainer.test(module, loaders, {.verbose = false}).empty());
  CHECK(trainer.predict(module, loaders).empty());
}

TEST_CASE("evaluation runs in evaluation mode without gradients, and leaves modes as they were") {
  Mean module;
  module.train();
  TrainerOptions options = quiet({.inference_mode = GENERATE(true, false)});
  Trainer(options).test(module, {rows({{1}})}, {.verbose = false});
  CHECK_FALSE(module.was_training);
  CHECK_FALSE(module.had_gradients);
  CHECK(module.was_inference == options.inference_mode);
  CHECK(module.is_training());
  CHECK(module.children().front()->is_training());
}

TEST_CASE("several loaders give a map each, with the loader's number in the key") {
  Mean module;
  Trainer trainer(quiet_options());
  const auto results = trainer.validate(module, {rows({{1}}), rows({{5}})}, {.verbose = false});
  REQUIRE(results.size() == 2);
  CHECK(results[0] == MetricMap{{"mean/dataloader_idx_0", 1.0}});
  CHECK(results[1] == MetricMap{{"mean/dataloader_idx_1", 5.0}});
}

TEST_CASE("predict gives what predict_step returned, by loader and batch") {
  Mean module;
  Trainer trainer(quiet({.limit_predict_batches = 2}));
  const auto predictions = trainer.predict(module, {rows({{1}, {2, 3}, {4}}), rows({{5}})});
  REQUIRE(predictions.size() == 2);
  REQUIRE(predictions[0].size() == 2);
  CHECK(torch::equal(predictions[0][1][0], torch::tensor({4.0F, 6.0F})));
  CHECK(torch::equal(predictions[1][0][0], torch::tensor({10.0F})));
}

TEST_CASE("hooks after an evaluation step are given what the step kept, and nothing where it kept nothing") {
  struct Keeps : Mean {
    void validation_step(const Batch& batch, std::int64_t batch_idx) override { keep(batch, batch_idx); }
    void test_step(const Batch& batch, std::int64_t batch_idx) override { keep(batch, batch_idx); }
    void on_validation_batch_end(const StepOutput& output, const Batch&, std::int64_t, std::int64_t) override { see(output); }
    void on_test_batch_end(const StepOutput& output, const Batch&, std::int64_t, std::int64_t) override { see(output); }
    void keep(const Batch& batch, std::int64_t batch_idx) {
      if (batch_idx == 1) return;
      set_step_output({batch[0].mean(), {{"dropped", batch[0]}}});
      set_step_output({batch[0].sum(), {{"doubled", batch[0] * 2}}});
    }
    void see(const StepOutput& output) {
      seen.push_back(output.loss.defined() ? output.loss.item<double>() : -1);
      for (const auto& [name, tensor] : output.extras.items()) names += name + std::to_string(tensor.sum().item<int>()) + " ";
    }
    std::vector<double> seen;
    std::string names;
  } module;
  struct Sees final : Callback {
    void on_validation_batch_end(Trainer&, Module&, const StepOutput& output, const Batch&, std::int64_t,
                                 std::int64_t) override {
      seen.push_back(output.loss.defined());
    }
    std::vector<bool> seen;
  };
  const auto callback = std::make_shared<Sees>();
  Trainer trainer(quiet({.callbacks = {callback}}));
  const LoaderList loaders = {rows({{1, 2}, {3}, {4}})};
  trainer.validate(module, loaders, {.verbose = false});
  CHECK(module.seen == std::vector<double>{3, -1, 4});
  CHECK(module.names == "doubled6 doubled8 ");
  CHECK(callback->seen == std::vector<bool>{true, false, true});
  trainer.test(module, loaders, {.verbose = false});
  CHECK(module.seen == std::vector<double>{3, -1, 4, 3, -1, 4});
  CHECK_THROWS_WITH(module.set_step_output(torch::ones({})), Catch::Contains("works in validation_step and test_step only"));
}

TEST_CASE("entry points without data or without their step say what is missing") {
  struct Empty : Module {
  } module;
  Trainer trainer(quiet_options());
  CHECK_THROWS_WITH(trainer.validate(module, LoaderList{}, {}), Catch::Contains("needs data"));
  CHECK_THROWS_WITH(trainer.test(module, {rows({{1}})}, {}), Catch::Contains("no test_step"));
}

TEST_CASE("rows of validation batches have the step of training that they follow, and count their batches") {
  struct RowKeeper final : Logger {
    std::string open(const RunInfo&) override { return {}; }
    void log_metrics(const MetricRow& row) override { rows.push_back(row); }
    std::vector<MetricRow> rows;
  };
  struct StepLogger : Mean {
    StepLogger() : weight_(register_parameter("weight", torch::ones({1}))) {}
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor loss = (weight_ * batch[0]).mean();
      log("loss", loss);
      return loss;
    }
    void validation_step(const Batch& batch, std::int64_t) override {
      log("val_loss", batch[0].mean(), {.on_step = true, .on_epoch = true});
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
    at::Tensor weight_;
  } module;
  const auto logger = std::make_shared<RowKeeper>();
  Trainer trainer(quiet({.max_epochs = 2, .logger = logger, .num_sanity_val_steps = 2, .log_every_n_steps = 1}));
  trainer.fit(module, rows({{1}, {2}, {3}}), {rows({{1}, {2}})});
  std::vector<std::int64_t> train_steps;
  std::vector<std::int64_t> validation_steps;
  std::vector<std::int64_t> evaluation_batches;
  for (const MetricRow& row : logger->rows) {
    if (row.values.contains("loss")) train_steps.push_back(row.step);
    if (!row.values.contains("val_loss_step")) {
      CHECK_FALSE(row.evaluation_batch);
      continue;
    }
    validation_steps.push_back(row.step);
    REQUIRE(row.evaluation_batch);
    evaluation_batches.push_back(*row.evaluation_batch);
  }
  CHECK(train_steps == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  CHECK(validation_steps == std::vector<std::int64_t>{2, 2, 5, 5});
  CHECK(evaluation_batches == std::vector<std::int64_t>{0, 1, 2, 3});
}
