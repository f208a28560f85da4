#include "levin/core/diagnostics/nan_guard.h"

#include <catch2/catch.hpp>
#include <limits>

#include "support/recording.h"
#include "support/shown_messages.h"

using namespace levin;
using namespace levin::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A weight that a step moves by the mean of the batch; one batch's loss, gradient or metric may be bad.
struct Weight : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    at::Tensor loss = (weight * batch[0]).mean();
    const bool bad = trainer().total_batch_idx() == bad_batch;
    if (bad && what == "loss") loss = loss + value;
    if (bad && what == "gradient") loss.register_hook([this](const at::Tensor& gradient) { return gradient * value; });
    log("metric", bad && what == "metric" ? value : 1.0);
    if (automatic_optimization()) return loss;
    optimizer().zero_grad();
    manual_backward(loss);
    step_optimizer();
    return {};
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1.0); }
  double number() const { return weight.item<double>(); }

  at::Tensor weight = register_parameter("weight", torch::zeros({1}));
  std::string what;
  double value = kNan;
  std::int64_t bad_batch = 2;
};

struct BadRun {
  TrainerOptions options;
  Weight module;

  explicit BadRun(const std::string& what, OnNan on_nan = OnNan::kWarn)
      : options(quiet({.max_epochs = 1, .log_every_n_steps = 1, .on_nan = on_nan})) {
    module.what = what;
  }
  std::vector<std::string> warnings() {
    return warnings_of([&] { Trainer(options).fit(module, FixedLoader::of_rows(5, 1)); });
  }
};

/// Batches of of_rows(5, 1) have the means 0.005, 0.025, …
double sum_without(int skipped) {
  double sum = 0;
  for (int index = 0; index < 5; ++index) sum -= index == skipped ? 0 : 0.005 + 0.02 * index;
  return sum;
}

}  // namespace

TEST_CASE("the first loss, gradient or metric that is NaN or infinite gives one warning that says where") {
  const auto [what, value, text] = GENERATE(table<std::string, double, std::string>(
      {{"loss", kNan, "The loss is nan in training_step (train, epoch 0, step 2) on rank 0."},
       {"loss", kInfinity, "The loss is inf in training_step (train, epoch 0, step 2) on rank 0."},
       {"gradient", kNan, "The gradient of 'weight' is NaN or infinite in optimizer_step (train, epoch 0, step 2) on rank 0."},
       {"metric", -kInfinity, "The metric 'metric' was logged as -inf in training_step (train, epoch 0, step 2) on rank 0."}}));
  INFO(what << " " << value);
  BadRun run(what);
  run.module.value = value;
  const auto warnings = run.warnings();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(), Catch::Contains(text));
}

TEST_CASE("a gradient is examined where a row is due, or where on_nan acts on it") {
  BadRun run("gradient");
  run.options.log_every_n_steps = 2;
  run.module.bad_batch = 4;  // the fifth step; rows are those of the second and the fourth
  CHECK(run.warnings().empty());
  BadRun skipping("gradient", OnNan::kSkip);
  skipping.options.log_every_n_steps = 0;
  CHECK(skipping.warnings().size() == 2);
}

TEST_CASE("on_nan: stop ends the run with an error, and skip leaves the step of such a batch out, and counts it") {
  const std::string what = GENERATE("loss", "gradient");
  const bool automatic = GENERATE(true, false);
  BadRun stopping(what, OnNan::kStop), skipping(what, OnNan::kSkip);
  for (BadRun* const run : {&stopping, &skipping}) run->module.set_automatic_optimization(automatic);
  CHECK_THROWS_WITH(stopping.warnings(),
                    Catch::Contains(what == "loss" ? "The loss is NaN or infinite in" : "The gradient of 'weight'") &&
                        Catch::Contains("(train, epoch 0, step 2)") && Catch::Contains("on_nan: stop"));
  CHECK(stopping.module.number() == Approx(-0.005 - 0.025));
  const auto warnings = skipping.warnings();
  CHECK(skipping.module.number() == Approx(sum_without(2)));
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0], Catch::Contains("the step is skipped"));
  CHECK_THAT(warnings[1], Catch::Contains("Epoch 0: 1 step was skipped, because a loss or gradient was NaN or infinite"));
}

TEST_CASE("a bad loss among accumulated batches skips the step that they make") {
  BadRun run("loss", OnNan::kSkip);
  run.options.accumulate_grad_batches = 2;
  run.module.bad_batch = 0;
  run.warnings();
  // Of the windows (0, 1), (2, 3) and (4) the first is left out.
  CHECK(run.module.number() == Approx(-(0.045 + 0.065) / 2 - 0.085));
}
