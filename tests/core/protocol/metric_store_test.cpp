#include "levin/core/protocol/metric_store.h"

#include <catch2/catch.hpp>

#include "levin/core/error.h"
#include "support/simulated_ranks.h"

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

TEST_CASE("two ranks: an epoch's mean is weighted over ranks, whoever logged, and one warning names who did not") {
  testing::SimulatedRanks ranks;
  std::vector<std::string> warnings(2);
  std::vector<MetricMap> rows(2);
  std::vector<std::int64_t> collectives(2);
  const auto result = ranks.run(2, 7, [&](ControlGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    MetricStore store(group, {.warn = [&](const std::string& text) { warnings[rank] += text; }});
    for (int epoch = 0; epoch < 2; ++epoch) {
      store.begin_stage(Stage::kValidate);
      store.begin_batch({.batch_size = group.rank() == 0 ? 3 : 1});
      store.enter(Hook::kValidationStep);
      store.log("val_loss", group.rank() == 0 ? 10.0 : 14.0, {}, kHere);
      store.end_batch();
      store.meet({BoundaryKind::kEpochReached, Stage::kValidate, epoch, 0}, {});
      store.enter(Hook::kOnValidationEpochEnd);
      if (group.rank() == 0) store.log("joined", 5, {}, kHere);
      rows[rank] = store.meet({BoundaryKind::kEpochEnd, Stage::kValidate, epoch, 0}, {}).logger_row;
      CHECK(store.monitored("joined") == 5.0);
      store.end_stage();
    }
    collectives[rank] = store.collectives();
  });
  CHECK(!result.errors[0]);
  CHECK(!result.errors[1]);
  for (std::size_t rank : {0, 1}) {
    CHECK(rows[rank] == MetricMap{{"joined", 5}, {"val_loss", 11}});
    CHECK(collectives[rank] == 6);  // two keys cost a second exchange when they are new, and nothing later
    CHECK_THAT(warnings[rank], Catch::StartsWith("log(\"joined\") in on_validation_epoch_end (metric_store_test.cpp:") &&
                                   Catch::Contains(") ran on rank 0 and not on rank 1: its value is the mean over"));
    CHECK(warnings[rank].find("log(", 1) == std::string::npos);
  }
}
