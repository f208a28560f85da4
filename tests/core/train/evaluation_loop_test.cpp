#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <csignal>

#include "levin/callbacks/lambda_callback.h"
#include "levin/core/base/error.h"
#include "levin/core/run/signal_scope.h"
#include "support/recording.h"
#include "support/scripted_line.h"

using namespace levin;
using namespace levin::test;

// Uses SIGUSR1: levin leaves SIGTERM to an existing handler, here that of Catch2.
TEST_CASE("a signal that ended a fit leaves out no batch of what its Trainer does next, nor of another that heeds none") {
  ScriptedLine module;
  bool is_signalled = true;
  module.on["training_step"] = [&](auto&, auto) {
    if (is_signalled) raise(SIGUSR1);
  };
  const auto validated = [&](Trainer& trainer) {
    module.validated.clear();
    trainer.validate(module, {counted(2)}, {.verbose = false});
    return module.validated.size();
  };
  Trainer trainer(quiet({.max_epochs = 1, .process = {.signals = true}}));
  CHECK_THROWS_AS(trainer.fit(module, counted(2)), Interrupted);
  CHECK(trainer.global_step() == 1);
  CHECK(SignalScope::received() == 0);
  CHECK(validated(trainer) == 2);
  is_signalled = false;
  trainer.fit(module, counted(2));
  CHECK(trainer.global_step() > 1);
  Trainer heedless(quiet({.process = {.signals = false}}));
  CHECK(validated(heedless) == 2);
  // A signal is ending another Trainer's fit.
  const SignalScope other;
  raise(SIGUSR1);
  CHECK(SignalScope::received() == SIGUSR1);
  CHECK(validated(heedless) == 2);
}

TEST_CASE("evaluation runs in evaluation mode without gradients, and leaves modes as they were") {
  const bool inference_mode = GENERATE(true, false);
  ScriptedLine module;
  const torch::nn::Dropout dropout = module.register_module("dropout", torch::nn::Dropout(0.5));
  std::string seen;
  module.on["test_step"] = [&](auto&, auto) {
    for (const bool holds : {dropout->is_training(), torch::GradMode::is_enabled(), c10::InferenceMode::is_enabled()})
      seen += holds ? '1' : '0';
  };
  Trainer(quiet({.inference_mode = inference_mode})).test(module, {counted(1)}, {.verbose = false});
  CHECK(seen == (inference_mode ? "001" : "000"));
  CHECK(module.is_training());
  CHECK(dropout->is_training());
}

TEST_CASE("hooks after an evaluation step get what the step has set as its output, and nothing where it has set nothing") {
  struct Sets : ScriptedLine {
    void validation_step(const Batch& batch, std::int64_t batch_idx) override { set(batch, batch_idx); }
    void test_step(const Batch& batch, std::int64_t batch_idx) override { set(batch, batch_idx); }
    void on_validation_batch_end(const StepOutput& output, const Batch&, std::int64_t, std::int64_t) override { see(output); }
    void on_test_batch_end(const StepOutput& output, const Batch&, std::int64_t, std::int64_t) override { see(output); }
    void set(const Batch& batch, std::int64_t batch_idx) {
      if (batch_idx == 1) return;
      set_step_output({batch[0].mean(), {{"dropped", batch[0]}}});
      set_step_output({batch[0].sum() + 1, {{"doubled", batch[0] * 2}}});
    }
    void see(const StepOutput& output) {
      seen.push_back(output.loss.defined() ? output.loss.item<double>() : -1);
      for (const auto& [name, tensor] : output.extras.items()) names += name + std::to_string(tensor.sum().item<int>()) + " ";
    }
    std::vector<double> seen;
    std::string names;
  } module;
  std::vector<bool> by_callback;
  Trainer trainer(
      quiet({.callbacks = {LambdaCallback(
                 {.on_validation_batch_end = [&](Trainer&, Module&, const StepOutput& output, const Batch&, std::int64_t,
                                                 std::int64_t) { by_callback.push_back(output.loss.defined()); }})}}));
  trainer.validate(module, {counted(3)}, {.verbose = false});
  CHECK(module.seen == std::vector<double>{2, -1, 4});
  CHECK(module.names == "doubled2 doubled6 ");
  CHECK(by_callback == std::vector<bool>{true, false, true});
  trainer.test(module, {counted(3)}, {.verbose = false});
  CHECK(module.seen == std::vector<double>{2, -1, 4, 2, -1, 4});
  CHECK_THROWS_WITH(module.set_step_output(torch::ones({})), Catch::Contains("works in validation_step and test_step only"));
}

TEST_CASE("entry points without data or without their step say what is missing") {
  Module module;
  Trainer trainer(quiet_options());
  CHECK_THROWS_WITH(trainer.validate(module, LoaderList{}, {}), Catch::Contains("needs data"));
  CHECK_THROWS_WITH(trainer.validate(module, {counted(1)}, {}), Catch::Contains("no validation_step"));
  CHECK_THROWS_WITH(trainer.test(module, {counted(1)}, {}), Catch::Contains("no test_step"));
}
