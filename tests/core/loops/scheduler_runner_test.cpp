#include "levin/core/engine/step/optimizers.h"

#include <catch2/catch.hpp>

#include "support/run_bench.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Remembers what it was stepped with.
class RecordingScheduler final : public LrScheduler {
 public:
  explicit RecordingScheduler(bool needs_metric) : needs_metric_(needs_metric) {}
  void step(std::optional<double> metric) override { steps.push_back(metric); }
  bool needs_metric() const override { return needs_metric_; }
  std::vector<double> last_lr() const override { return {}; }
  Value state_dict() const override { return {}; }
  torch::optim::Optimizer& optimizer() const override { throw std::logic_error("not asked for"); }
  void load_state_dict(const Value&) override {}

  std::vector<std::optional<double>> steps;

 private:
  bool needs_metric_;
};

struct SchedulerBench : RunBench {
  std::shared_ptr<RecordingScheduler> add(SchedulerConfig config, bool needs_metric = false) {
    auto scheduler = std::make_shared<RecordingScheduler>(needs_metric);
    config.scheduler = scheduler;
    parts.schedulers.push_back(config);
    return scheduler;
  }
  SchedulerRunner runner{parts, progress, *metrics, hooks};
};

}  // namespace

TEST_CASE("a scheduler steps at its interval, every `frequency` times") {
  SchedulerBench bench;
  const auto each_epoch = bench.add({.interval = Interval::kEpoch});
  const auto every_third_step = bench.add({.interval = Interval::kStep, .frequency = 3});
  for (bench.progress.batch.batch_idx = 0; bench.progress.batch.batch_idx < 7; ++bench.progress.batch.batch_idx) {
    bench.runner.step(Interval::kStep, /*on_metric=*/false);
  }
  CHECK(every_third_step->steps.size() == 2);
  CHECK(each_epoch->steps.empty());
  bench.runner.step(Interval::kEpoch, /*on_metric=*/false);
  bench.module.set_automatic_optimization(false);  // then they are the module's business
  bench.runner.step(Interval::kEpoch, /*on_metric=*/false);
  CHECK((each_epoch->steps == std::vector<std::optional<double>>{std::nullopt}));
  CHECK(every_third_step->steps.size() == 2);
}

TEST_CASE("a scheduler on a metric gets the value that monitors see, in its own pass") {
  SchedulerBench bench;
  const auto plateau = bench.add({.interval = Interval::kEpoch, .monitor = "val_loss"}, /*needs_metric=*/true);
  bench.metrics->set_callback_metric("val_loss", 0.25);
  bench.runner.step(Interval::kEpoch, /*on_metric=*/false);
  CHECK(plateau->steps.empty());
  bench.runner.step(Interval::kEpoch, /*on_metric=*/true);
  CHECK((plateau->steps == std::vector<std::optional<double>>{0.25}));
}

TEST_CASE("a metric that nobody logged is an error when the scheduler is strict, and is passed over otherwise") {
  SchedulerBench bench;
  bench.metrics->set_callback_metric("train_loss", 1.0);
  const auto plateau = bench.add({.interval = Interval::kEpoch, .monitor = "val_los", .strict = true}, /*needs_metric=*/true);
  CHECK_THROWS_WITH(bench.runner.step(Interval::kEpoch, true),
                    Catch::StartsWith("A learning-rate scheduler monitors 'val_los', which no rank has logged. Logged so far: "
                                      "train_loss."));
  bench.parts.schedulers.front().strict = false;
  bench.runner.step(Interval::kEpoch, true);
  CHECK(plateau->steps.empty());
}
