#include "levin/core/protocol/metric_store.h"

#include <catch2/catch.hpp>

#include "levin/core/error.h"

using namespace levin;

namespace {

const CallSite kHere{std::source_location::current()};

struct Solo {
  SingleProcessGroup group;
  MetricStore store{group, {}};

  void log(Hook hook, const char* name, double value, const LogOptions& options = {}) {
    store.enter(hook);
    store.log(name, value, options, kHere);
  }
  BoundaryOutcome meet(BoundaryKind kind, Stage stage = Stage::kTrain) { return store.meet({kind, stage, 0, 0}, {}); }
};

}  // namespace

TEST_CASE("a training step's metric is a step value under its plain name, and has no epoch value") {
  Solo solo;
  solo.store.begin_stage(Stage::kTrain);
  solo.log(Hook::kTrainingStep, "loss", 2.5);
  CHECK(solo.store.callback_metrics() == MetricMap{{"loss", 2.5}});
  CHECK(solo.store.logged_metrics() == MetricMap{{"loss", 2.5}});
  CHECK(solo.store.progress_bar_metrics().empty());
  CHECK(solo.meet(BoundaryKind::kTrainStep).logger_row == MetricMap{{"loss", 2.5}});
  solo.meet(BoundaryKind::kEpochReached);
  CHECK(solo.meet(BoundaryKind::kEpochEnd).logger_row.empty());
}

TEST_CASE("a key with both levels is forked, and its plain name turns from step to epoch value when the epoch is reached") {
  Solo solo;
  solo.store.begin_stage(Stage::kTrain);
  const LogOptions both{.on_epoch = true, .prog_bar = true};
  solo.store.begin_batch({.batch_size = 3});
  solo.log(Hook::kTrainingStep, "a", 10, both);
  solo.store.end_batch();
  solo.store.begin_batch({.batch_size = 1});
  solo.log(Hook::kTrainingStep, "a", 14, both);
  solo.store.end_batch();
  CHECK(solo.store.callback_metrics() == MetricMap{{"a", 14}, {"a_step", 14}});
  solo.meet(BoundaryKind::kEpochReached);
  CHECK(solo.store.callback_metrics() == MetricMap{{"a", 11}, {"a_epoch", 11}, {"a_step", 14}});
  CHECK(solo.store.logged_metrics() == MetricMap{{"a_epoch", 11}, {"a_step", 14}});
  CHECK(solo.store.progress_bar_metrics() == MetricMap{{"a_epoch", 11}, {"a_step", 14}});
  CHECK(solo.meet(BoundaryKind::kEpochEnd).logger_row == MetricMap{{"a_epoch", 11}});
}

TEST_CASE("log() where it has no meaning names hook, key and call site") {
  Solo solo;
  CHECK_THROWS_WITH(
      solo.log(Hook::kOnFitStart, "a", 1),
      Catch::Contains("log(\"a\") in on_fit_start (metric_store_test.cpp:") && Catch::Contains("cannot be logged"));
  CHECK_THROWS_AS(solo.log(Hook::kNone, "a", 1), MisuseError);
  CHECK_THROWS_AS(solo.log(Hook::kOnTrainEpochEnd, "a", 1, {.on_step = true}), MisuseError);
  CHECK_THROWS_AS(solo.log(Hook::kOnTrainEpochEnd, "a", 1, {.on_epoch = false}), MisuseError);
  CHECK_THROWS_AS(solo.log(Hook::kTrainingStep, "a", 1, {.on_step = false}), MisuseError);
  CHECK_THROWS_AS(solo.log(Hook::kTrainingStep, "", 1), MisuseError);
  CHECK_THROWS_WITH(solo.log(Hook::kTrainingStep, "a\nb", 1), Catch::Contains("log(\"a?b\")"));
  CHECK_THROWS_AS(solo.log(Hook::kTrainingStep, "step", 1), MisuseError);
  CHECK_THROWS_AS(solo.log(Hook::kTrainingStep, "x/dataloader_idx_0", 1), MisuseError);
  CHECK_THROWS_WITH(solo.log(Hook::kTrainingStep, "a", 1, {.batch_size = -1}), Catch::Contains("batch_size is -1"));
}
