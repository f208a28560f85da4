// Training on a device whose work is done late comes to what training on the CPU comes to.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "device/device_run.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

constexpr const char* kQueued = "QueuedAccelerator";

/// The rows of a run, and the weights that it ends with.
struct Fitted {
  std::vector<MetricMap> rows;
  std::vector<at::Tensor> weights;
};

Fitted fitted(TrainerOptions options, const std::string& accelerator) {
  Fitted result;
  const TemporaryFolder folder;
  options.accelerator = accelerator;
  options.default_root_dir = folder.path();
  const auto logger = std::make_shared<RowsOf>();
  options.logger = logger;
  torch::manual_seed(4);
  LoggedClasses module;
  module.counts = true;
  Trainer(options).fit(module, class_rows(100), {class_rows(30)});
  for (const MetricRow& row : logger->rows) result.rows.push_back(row.values);
  for (const at::Tensor& weight : module.parameters()) result.weights.push_back(weight.detach().to(at::kCPU, at::kDouble));
  return result;
}

void check_close(const Fitted& one, const Fitted& other, double tolerance) {
  REQUIRE(one.rows.size() == other.rows.size());
  REQUIRE(!one.rows.empty());
  for (std::size_t index = 0; index < one.rows.size(); ++index) {
    REQUIRE(one.rows[index].names() == other.rows[index].names());
    for (const auto& [name, value] : one.rows[index]) {
      INFO(name << " in row " << index);
      CHECK(value == Approx(other.rows[index].at(name)).epsilon(tolerance).margin(tolerance));
    }
  }
  for (std::size_t index = 0; index < one.weights.size(); ++index) {
    CHECK(at::allclose(one.weights[index], other.weights[index], tolerance, tolerance));
  }
}

TrainerOptions two_epochs() { return quiet({.max_epochs = 2, .log_every_n_steps = 3}); }

TEST_CASE("training on a device that works late has the CPU's numbers") {
  TrainerOptions options = two_epochs();
  double tolerance = 1e-5;
  SECTION("with what every run has") {}
  SECTION("with accumulation and clipping by norm") {
    options.accumulate_grad_batches = 3;
    options.gradient_clip_val = 0.05;
  }
  SECTION("with averaged weights") { options.callbacks = {"EMAWeightAveraging"}; }
  SECTION("with monitors of gradients, rates, memory") { options.callbacks = {"GradientNormMonitor", "LearningRateMonitor"}; }
  SECTION("in double") { options.precision = PrecisionFormat::kFloat64; }
  SECTION("under autocast") {
    options.precision = PrecisionFormat::kBfloat16Mixed;
    tolerance = 1e-2;
  }
  SECTION("where a loss or gradient that is NaN ends the run") { options.on_nan = OnNan::kStop; }
  check_close(fitted(options, kQueued), fitted(options, "cpu"), tolerance);
}

TEST_CASE("16-mixed scales gradients on the device, and leaves out steps that overflow") {
  TrainerOptions options = two_epochs();
  options.precision = PrecisionFormat::kFloat16Mixed;
  check_close(fitted(options, kQueued), fitted(two_epochs(), "cpu"), 2e-2);
}

/// Adds up the means of batches.
struct AddsMeans : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor mean = batch["x"].mean();
    log("mean", mean, {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    return mean * weight.sum();
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }
  at::Tensor weight = register_parameter("weight", torch::ones({1}));
};

TEST_CASE("a large batch is copied on a separate stream, without a wait, and what uses it comes after") {
  const auto counted = std::make_shared<CountSteps>();
  TrainerOptions options = quiet({.max_epochs = 3, .accelerator = kQueued});
  options.callbacks = {counted};
  AddsMeans module;
  Trainer trainer(options);
  // Later than what uses it, or earlier than what used its memory.
  QueuedDevice::others_first(GENERATE(false, true));
  std::vector<Batch> batches;
  for (const double number : {1, 2, 3, 4, 5, 6})
    batches.push_back(Batch{{"x", torch::full({4, 1 << 17}, number, at::TensorOptions().pinned_memory(true))}});
  trainer.fit(module, std::make_shared<FixedLoader>(std::move(batches)));
  QueuedDevice::others_first(false);
  CHECK(trainer.callback_metrics().at("mean") == 21);
  for (const auto& step : counted->steps) {
    CHECK(step.waits == 0);
    CHECK(step.copies_to_device == 1);
    CHECK(step.blocking_to_device == 0);
  }
}

TEST_CASE("a loss or gradient that is NaN on a device gives a warning when its row is read, with where it arose") {
  struct Spoils : LoggedClasses {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      at::Tensor loss = LoggedClasses::training_step(batch, batch_idx).loss;
      if (batch_idx != 5) return loss;
      const double nan = std::numeric_limits<double>::quiet_NaN();
      if (of_loss) return loss * nan;
      network[2]->as<torch::nn::Linear>()->weight.register_hook([nan](const at::Tensor& gradient) { return gradient * nan; });
      return loss;
    }
    bool of_loss = false;
  } module;
  module.of_loss = GENERATE(true, false);
  TrainerOptions options = quiet({.max_epochs = 1, .accelerator = kQueued, .log_every_n_steps = 6});
  options.gradient_clip_val = 0.1;  // which spoils all gradients
  const auto warnings = warnings_of([&] { Trainer(options).fit(module, class_rows(48)); });
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(),
             Catch::Contains(module.of_loss ? "The loss is nan in training_step (train, epoch 0, step 5) on rank 0."
                                            : "The gradient of 'network.2.weight' is NaN or infinite in optimizer_step (train, "
                                              "epoch 0, step 5) on rank 0."));
}

TEST_CASE("what a device reports late names the hook in which it shows, and says that the cause may lie before") {
  struct LooksUp : LoggedClasses {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      if (batch_idx == 1) static_cast<void>(network->forward(batch[0]).gather(1, batch[1].unsqueeze(1) + 7));
      return LoggedClasses::training_step(batch, batch_idx);
    }
    void on_train_batch_end(const StepOutput& output, const Batch&, std::int64_t batch_idx) override {
      if (batch_idx == 3) static_cast<void>(output.loss.item<float>());
    }
  } module;
  TrainerOptions options = quiet({.max_epochs = 1, .accelerator = kQueued});
  const std::string error = error_of<c10::Error>([&] { Trainer(options).fit(module, class_rows(100)); });
  QueuedDevice::forget_error();
  CHECK_THAT(error, Catch::Contains("in on_train_batch_end (train, epoch 0, step 4)"));
  CHECK_THAT(error, Catch::Contains("out of bounds"));
  CHECK_THAT(error, Catch::Contains("Hint: ") &&
                        Catch::Contains("a device reports some errors late, so the cause may be in an earlier hook"));
}

TEST_CASE("out of memory of a device is an error with what is held there") {
  struct TakesAll : LoggedClasses {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      if (batch_idx == 2) {
        QueuedDevice::limit_memory((std::int64_t{1} << 20) + 200000);
        held.push_back(torch::zeros({1 << 18}, device()));
        static_cast<void>(torch::zeros({1 << 18}, device()));
      }
      return LoggedClasses::training_step(batch, batch_idx);
    }
    std::vector<at::Tensor> held;
    at::Tensor table = register_buffer("table", torch::zeros({1 << 14}));
  } module;
  TrainerOptions options = quiet({.max_epochs = 1, .accelerator = kQueued});
  const std::string error = error_of<c10::OutOfMemoryError>([&] { Trainer(options).fit(module, class_rows(100)); });
  QueuedDevice::limit_memory(std::int64_t{1} << 50);
  CHECK_THAT(error, Catch::Contains("in training_step (train, epoch 0, step 2)"));
  CHECK_THAT(error, Catch::Contains("Rank 0 holds on queued:0, in MiB:"));
  CHECK_THAT(error, Catch::Contains("1.0  other"));
  CHECK_THAT(error, Catch::Contains("0.1  buffers"));
  CHECK_THAT(error, Catch::Contains("Hint: a smaller batch_size"));
}

}  // namespace
}  // namespace levin::test
