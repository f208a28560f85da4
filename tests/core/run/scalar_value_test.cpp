#include "levin/core/run/scalar_value.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "levin/core/protocol/metric_store.h"
#include "support/queued_device/queued_device.h"
#include "support/recording.h"
#include "support/simulated_ranks.h"

using namespace levin;
using namespace levin::test;

namespace {

const CallSite kHere{SourceLocation::current()};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

at::Tensor on_device(double value, at::ScalarType type = at::kFloat) {
  return torch::full({}, value, at::TensorOptions(type).device(QueuedDevice::device()));
}

std::shared_ptr<DeferredScalar> deferred(const at::Tensor& value) {
  static const auto memory = std::make_shared<ScalarMemory>();
  return std::make_shared<DeferredScalar>(value, memory);
}

/// One rank's store in training.
struct Solo {
  Solo() { store.begin_stage(Stage::kTrain); }
  void log(const char* name, const at::Tensor& value, const LogOptions& options = {}) {
    store.enter(Hook::kTrainingStep);
    store.log(name, deferred(value), options, kHere);
  }
  void log_number(const char* name, double value, const LogOptions& options = {}) {
    store.enter(Hook::kTrainingStep);
    store.log(name, value, options, kHere);
  }
  BoundaryOutcome meet(BoundaryKind kind) { return store.meet({kind, Stage::kTrain, 0, 0}, {}); }

  SingleProcessGroup group;
  MetricStore store{group, {}};
};

LogOptions of_epoch(Reduce reduce, std::int64_t batch_size = 1) {
  return {.on_step = false, .on_epoch = true, .reduce = reduce, .batch_size = batch_size};
}

}  // namespace

TEST_CASE("a number in a tensor is the one that LibTorch means, however lazily it stores it") {
  CHECK(scalar_value(torch::tensor(2.5)) == 2.5);
  CHECK(scalar_value(torch::tensor(2.5, at::kDouble)) == 2.5);
  CHECK(scalar_value(torch::tensor(7, at::kLong)) == 7);
  CHECK(scalar_value(torch::tensor(true)) == 1);
  CHECK(scalar_value(torch::tensor(1.5, at::kBFloat16)) == 1.5);
  CHECK(scalar_value(torch::tensor({1.0, 3.0}).slice(0, 1, 2)) == 3);
  for (const auto type : {at::kFloat, at::kDouble, at::kLong, at::kHalf}) {
    CHECK(scalar_value(at::_neg_view(torch::tensor(2.0).to(type))) == -2);
    CHECK(scalar_value(at::_efficientzerotensor({}, at::TensorOptions().dtype(type))) == 0);
  }
  const at::Tensor complex = torch::complex(torch::tensor(1.0), torch::tensor(4.0));
  CHECK(scalar_value(torch::imag(torch::conj(complex))) == -4);
  CHECK(scalar_value(torch::tensor({5.0}).to_sparse()) == 5);
}

TEST_CASE("log() of a device's tensor never waits for the device, whatever becomes of the value") {
  Solo solo;
  const std::int64_t before = QueuedDevice::counts().waits;
  for (int step = 1; step <= 20; ++step) {
    const double value = step == 7 ? -5 : step;
    const std::int64_t size = step <= 10 ? 1 : 3;
    solo.store.begin_batch({.batch_size = size});
    solo.log("both", on_device(value), {.on_epoch = true});
    solo.log("mean", on_device(value), of_epoch(Reduce::kMean, size));
    solo.log("sum", on_device(value, at::kLong), of_epoch(Reduce::kSum));
    solo.log("min", on_device(value, at::kHalf), of_epoch(Reduce::kMin));
    solo.log("max", on_device(value, at::kDouble), of_epoch(Reduce::kMax));
    solo.log("nan", on_device(step == 3 ? kNan : value), of_epoch(Reduce::kMin));
    solo.log("weightless", on_device(step == 3 ? kNan : value), of_epoch(Reduce::kMean, step == 3 ? 0 : 1));
    solo.store.end_batch();
    if (step != 10) continue;
    CHECK(QueuedDevice::counts().waits == before);
    CHECK(solo.meet(BoundaryKind::kTrainStep).logger_row == MetricMap{{"both_step", 10}});
    CHECK(QueuedDevice::counts().waits == before + 1);  // once for all keys
  }
  CHECK(QueuedDevice::counts().waits == before + 1);
  solo.meet(BoundaryKind::kEpochReached);
  CHECK(QueuedDevice::counts().waits == before + 2);
  const MetricMap row = solo.meet(BoundaryKind::kEpochEnd).logger_row;
  CHECK(QueuedDevice::counts().waits == before + 2);
  const double sum = 210 - 12;
  const double weighted = 55 - 12 + 3 * 155;
  CHECK(row.at("both_epoch") == weighted / 40);
  CHECK(row.at("mean") == weighted / 40);
  CHECK(row.at("sum") == sum);
  CHECK(row.at("min") == -5);
  CHECK(row.at("max") == 20);
  CHECK(std::isnan(row.at("nan")));
  CHECK(row.at("weightless") == (sum - 3) / 19);
}

TEST_CASE("an epoch's sum of a device's numbers has what a float would lose") {
  Solo solo;
  for (int step = 0; step < 1000; ++step) solo.log("sum", on_device(step == 0 ? 1e8 : 0.25), of_epoch(Reduce::kSum));
  solo.meet(BoundaryKind::kEpochReached);
  CHECK(solo.store.callback_metrics().at("sum") == 1e8 + 999 * 0.25);
}

TEST_CASE("the views have a device's newest value at once; nothing else waits for it") {
  Solo solo;
  const std::int64_t before = QueuedDevice::counts().waits;
  for (const double value : {1.0, 2.0}) {
    solo.log("loss", on_device(value), {.prog_bar = true});
    solo.log("other", on_device(value + 10));
  }
  CHECK(QueuedDevice::counts().waits == before);
  CHECK(solo.store.callback_metrics() == MetricMap{{"loss", 2}, {"other", 12}});
  CHECK(solo.store.logged_metrics() == MetricMap{{"loss", 2}, {"other", 12}});
  CHECK(solo.store.progress_bar_metrics() == MetricMap{{"loss", 2}});
  CHECK(solo.store.monitored("loss") == 2);
  CHECK(solo.store.local_step_row() == MetricMap{{"loss", 2}, {"other", 12}});
  CHECK(QueuedDevice::counts().waits == before + 1);
  // The last log() counts, wherever its value was.
  solo.log("loss", on_device(3), {.prog_bar = true});
  solo.log_number("loss", 4, {.prog_bar = true});
  CHECK(solo.store.progress_bar_metrics() == MetricMap{{"loss", 4}});
  solo.log_number("loss", 5, {.prog_bar = true});
  solo.log("loss", on_device(6), {.prog_bar = true});
  CHECK(solo.store.progress_bar_metrics() == MetricMap{{"loss", 6}});
}

TEST_CASE("a device's step values outlast the epoch in which nobody has read them") {
  Solo solo;
  solo.store.begin_stage(Stage::kValidate);
  solo.store.enter(Hook::kValidationStep);
  solo.store.log("v", deferred(on_device(3)), {.on_step = true, .on_epoch = false}, kHere);
  solo.store.meet({BoundaryKind::kEpochReached, Stage::kValidate, 0, 0}, {});
  solo.store.reset_epoch();
  solo.store.end_stage();
  CHECK(solo.store.logged_metrics() == MetricMap{{"v", 3}});
}

TEST_CASE("a tensor that is changed in place after log() was logged as it was") {
  Solo solo;
  at::Tensor loss = on_device(1);
  solo.log("loss", loss, {.on_epoch = true});
  loss.fill_(100);
  CHECK(solo.store.callback_metrics().at("loss") == 1);
  solo.meet(BoundaryKind::kEpochReached);
  CHECK(solo.store.callback_metrics().at("loss_epoch") == 1);
}

TEST_CASE("a snapshot has a device's numbers, and what is logged after it continues from them") {
  Solo solo;
  const LogOptions both{.on_epoch = true, .reduce = Reduce::kSum};
  for (const auto& [value, sum] : {std::pair(4, 4), std::pair(8, 12)}) {
    solo.log("loss", on_device(value), both);
    const MetricSnapshot snapshot = solo.store.save();
    const Value::List& training = snapshot.training.at("training").as_list();
    REQUIRE(training.size() == 1);
    CHECK(training.front().at("step").as_list().front().as_double() == value);
    CHECK(training.front().at("epoch").as_list().front().as_double() == sum);
  }
  solo.log("loss", on_device(1), both);
  solo.meet(BoundaryKind::kEpochReached);
  CHECK(solo.store.callback_metrics().at("loss_epoch") == 13);
}

TEST_CASE("a fit that logs a device's numbers waits for them at boundaries, and when a hook reads them") {
  struct Logging : Module {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor loss = (weight * batch[0]).mean();
      log("input", batch[0].mean().to(QueuedDevice::device(), /*non_blocking=*/true), {.on_epoch = true});
      log("twice", 2 * batch[0].mean().to(QueuedDevice::device(), /*non_blocking=*/true), {.on_epoch = true});
      waits.push_back(QueuedDevice::counts().waits);
      return loss;
    }
    void on_train_epoch_end() override { newest = trainer().callback_metrics().at("twice_step"); }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

    at::Tensor weight = register_parameter("weight", torch::zeros({1}));
    std::vector<std::int64_t> waits;
    double newest = 0;
  } module;
  std::vector<Batch> batches;
  for (int index = 1; index <= 8; ++index) batches.push_back(Batch{{"x", torch::full({1}, 1.0 * index)}});
  Trainer trainer(quiet({.max_epochs = 1, .accelerator = "cpu", .log_every_n_steps = 4}));
  const std::int64_t before = QueuedDevice::counts().waits;
  trainer.fit(module, std::make_shared<FixedLoader>(std::move(batches)));
  // A row after the fourth step, and one after the last.
  CHECK(module.waits ==
        std::vector<std::int64_t>{before, before, before, before, before + 1, before + 1, before + 1, before + 1});
  CHECK(module.newest == 16);
  CHECK(trainer.callback_metrics().at("input_epoch") == 4.5);
  CHECK(QueuedDevice::counts().waits == before + 3);
}
