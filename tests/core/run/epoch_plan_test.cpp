#include "levin/core/run/epoch_plan.h"

#include <catch2/catch.hpp>

using namespace levin;

TEST_CASE("an int limits batches to a number, a float to a share rounded down") {
  CHECK(limited_batches(10, Limit(1), "x") == 1);
  CHECK(limited_batches(10, Limit(1.0), "x") == 10);
  CHECK(limited_batches(10, Limit(0.39), "x") == 3);
  CHECK(limited_batches(10, Limit(25), "x") == 10);
  CHECK(limited_batches(10, Limit(0), "x") == 0);
  CHECK(limited_batches(10, std::nullopt, "x") == 10);
  CHECK_THROWS_WITH(limited_batches(10, Limit(0.01), "limit_val_batches"),
                    Catch::Contains("limit_val_batches") && Catch::Contains("0.01") && Catch::Contains("10 batches"));
}

TEST_CASE("an unknown number of batches takes numbers, and shares of nothing or all only") {
  CHECK(limited_batches(std::nullopt, Limit(3), "x") == std::nullopt);
  CHECK(limited_batches(std::nullopt, Limit(0), "x") == 0);
  CHECK(limited_batches(std::nullopt, Limit(0.0), "x") == 0);
  CHECK(limited_batches(std::nullopt, Limit(1.0), "x") == std::nullopt);
  CHECK_THROWS_AS(limited_batches(std::nullopt, Limit(0.5), "x"), ConfigError);
}

TEST_CASE("validation runs where Lightning runs it") {
  /// The batches, counted over epochs, after which validation runs.
  const auto due = [](const ValidationSchedule& schedule, std::int64_t epochs, std::int64_t batches) {
    std::vector<std::int64_t> when;
    for (std::int64_t total = 0; total < epochs * batches; ++total) {
      const std::int64_t batch = total % batches;
      if (schedule.due(total / batches, batch, total, batch + 1 == batches)) when.push_back(total);
    }
    return when;
  };
  using Expected = std::vector<std::int64_t>;
  CHECK(due({std::nullopt, 1, 4, true}, 2, 4) == Expected{3, 7});
  CHECK(due({Limit(0.5), 1, 5, true}, 2, 5) == Expected{1, 3, 6, 8});  // int(5 * 0.5) = every 2 batches of an epoch
  CHECK(due({Limit(3), 1, 4, true}, 2, 4) == Expected{2, 6});
  CHECK(due({Limit(3), std::nullopt, 4, true}, 2, 4) == Expected{2, 5});
  CHECK(due({std::nullopt, 2, 4, true}, 4, 4) == Expected{7, 15});
  CHECK(due({std::nullopt, 1, std::nullopt, true}, 2, 4) == Expected{3, 7});  // of unknown length
  CHECK(due({std::nullopt, 1, 4, false}, 2, 4).empty());
  CHECK(due({Limit(0.01), 1, 4, true}, 1, 4) == Expected{0, 1, 2, 3});  // at least every batch
}

TEST_CASE("a validation interval that does not fit the epoch is an error that says what to do") {
  CHECK_THROWS_WITH(ValidationSchedule(Limit(5), 1, 4, true), Catch::Contains("val_check_interval: 5"));
  CHECK_THROWS_WITH(ValidationSchedule(Limit(0.5), 1, std::nullopt, true), Catch::Contains("unknown"));
  CHECK_NOTHROW(ValidationSchedule(Limit(5), std::nullopt, 4, true));
}

TEST_CASE("an epoch lasts until the last rank runs out of batches, or the first under manual optimization") {
  CHECK(ends_with_first_rank({.uneven = Uneven::kDrop}, /*automatic_optimization=*/true));
  CHECK_FALSE(ends_with_first_rank({}, /*automatic_optimization=*/true));
  CHECK(ends_with_first_rank({}, /*automatic_optimization=*/false));
  CHECK(EpochPlan({3, 1, 2}, false).iterations() == 3);
  CHECK(EpochPlan({3, 1, 2}, true).iterations() == 1);
  CHECK(EpochPlan({3, 3}, false).is_last(2));
  CHECK_FALSE(EpochPlan({3, 3}, false).is_last(1));
  CHECK_FALSE(EpochPlan({3, -1}, false).known());
  CHECK_FALSE(EpochPlan({3, -1}, false).is_last(2));
}

namespace {

struct Length {
  std::int64_t batches = 10;  // of an epoch; -1: unknown
  std::int64_t max_epochs = 3;
  std::int64_t max_steps = -1;
  std::int64_t accumulate = 1;

  TrainingLength length(int* asked = nullptr) const {
    TrainerOptions options;
    options.max_epochs = max_epochs;
    options.max_steps = max_steps;
    return {options, accumulate, [asked, batches = batches] {
              if (asked != nullptr) ++*asked;
              return batches;
            }};
  }
};

struct Count {
  std::int64_t optimizer = 0, schedule = 0;
};

/// Goes through training batch by batch, as the loops do.
Count counted_steps(const Length& training, Interval interval, std::int64_t frequency) {
  Count count;
  for (std::int64_t epoch = 0; epoch < training.max_epochs; ++epoch) {
    for (std::int64_t batch = 1; batch <= training.batches; ++batch) {
      if (batch % training.accumulate != 0 && batch != training.batches) continue;
      ++count.optimizer;
      if (interval == Interval::kStep && batch % frequency == 0) ++count.schedule;
      const bool ends = batch == training.batches || count.optimizer == training.max_steps;
      if (interval == Interval::kEpoch && ends && (epoch + 1) % frequency == 0) ++count.schedule;
      if (count.optimizer == training.max_steps) return count;
    }
  }
  return count;
}

struct Run {
  TrainerOptions options;
  Progress progress;
  RunWishes stop;
  int world_size = 1;
  EpochPlan plan = EpochPlan({10}, /*stop_with_first=*/false);

  StopConditions conditions() const { return {options, progress, stop, world_size}; }
  std::optional<std::string> reason() const { return conditions().reason(plan); }
};

}  // namespace

TEST_CASE("the training loader is asked for only where its length matters") {
  const auto asks = [](const Length& training, auto use) {
    int asked = 0;
    use(training.length(&asked));
    return asked > 0;
  };
  const auto optimizer = [](const TrainingLength& length) { length.optimizer_steps(); };
  const auto epochs = [](const TrainingLength& length) { length.schedule_steps(Interval::kEpoch, 2); };
  CHECK(asks({.max_epochs = 3}, optimizer));
  CHECK_FALSE(asks({.max_epochs = -1, .max_steps = 5}, optimizer));
  CHECK_FALSE(asks({.max_epochs = 3}, epochs));
  CHECK(asks({.max_epochs = 3, .max_steps = 5}, epochs));
}

TEST_CASE("a schedule has as many steps as the loops will give it") {
  for (const std::int64_t batches : {1, 2, 5, 6, 7, 12}) {
    for (const std::int64_t accumulate : {1, 2, 3, 4}) {
      for (const std::int64_t frequency : {1, 2, 3, 4, 6}) {
        for (const std::int64_t max_steps : {-1, 1, 4, 5, 100}) {
          const Length training{.batches = batches, .max_epochs = 3, .max_steps = max_steps, .accumulate = accumulate};
          const TrainingLength length = training.length();
          INFO(batches << " batches, " << accumulate << " a step, at most " << max_steps << ", frequency " << frequency);
          const Count each_step = counted_steps(training, Interval::kStep, frequency);
          REQUIRE(length.optimizer_steps() == each_step.optimizer);
          REQUIRE(length.schedule_steps(Interval::kStep, frequency) == each_step.schedule);
          const Count each_epoch = counted_steps(training, Interval::kEpoch, frequency);
          REQUIRE(length.schedule_steps(Interval::kEpoch, frequency) == each_epoch.schedule);
        }
      }
    }
  }
}

TEST_CASE("steps are those of one epoch at least, and unknown where batches or epochs are, unless max_steps says") {
  using Steps = std::optional<std::int64_t>;
  const auto epochs = Interval::kEpoch, steps = Interval::kStep;
  CHECK(Length{.max_epochs = 0}.length().optimizer_steps() == Steps(10));
  CHECK(Length{.batches = -1}.length().optimizer_steps() == std::nullopt);
  CHECK(Length{.batches = -1, .max_steps = 12}.length().optimizer_steps() == Steps(12));
  CHECK(Length{.max_epochs = -1}.length().optimizer_steps() == std::nullopt);
  CHECK(Length{.max_epochs = -1, .max_steps = 12}.length().optimizer_steps() == Steps(12));
  // A schedule by epochs needs no number of batches, one by steps of unknown epochs only max_steps.
  CHECK(Length{.batches = -1, .max_epochs = 6}.length().schedule_steps(epochs, 2) == Steps(3));
  CHECK(Length{.batches = -1, .max_epochs = 6}.length().schedule_steps(steps, 1) == std::nullopt);
  CHECK(Length{.batches = -1, .max_epochs = -1, .max_steps = 10}.length().schedule_steps(steps, 2) == Steps(5));
  CHECK(Length{.batches = -1, .max_epochs = -1, .max_steps = 10}.length().schedule_steps(epochs, 1) == std::nullopt);
  CHECK(Length{.batches = 4, .max_epochs = -1, .max_steps = 10}.length().schedule_steps(epochs, 1) == Steps(3));
}

TEST_CASE(
    "training ends where max_epochs and max_steps say, within an epoch or at its end, and continues while nothing ends it") {
  struct Row {
    std::int64_t max_epochs, epoch, step;
    bool ends_epoch;
    std::optional<std::string> reason;
  };
  const Row row = GENERATE(Row{-1, 1000000, 0, false, std::nullopt}, Row{3, 2, 24, false, std::nullopt},
                           Row{3, 2, 25, true, "max_steps=25 reached"}, Row{3, 3, 24, false, "max_epochs=3 reached"});
  CAPTURE(row.epoch, row.step);
  Run run;
  run.options.max_epochs = row.max_epochs;
  if (row.max_epochs > 0) run.options.max_steps = 25;
  run.progress.epoch = row.epoch;
  run.progress.global_step = row.step;
  CHECK(run.conditions().ends_epoch() == row.ends_epoch);
  CHECK(run.reason() == row.reason);
}

TEST_CASE("an agreed stop waits for min_epochs and min_steps, and names the rank that asked") {
  Run run;
  run.world_size = 2;
  run.options.max_epochs = 9;
  run.options.min_epochs = 2;
  run.options.min_steps = 5;
  run.stop.adopt({Votes{}, Votes{.stop = true}});
  for (const auto& [epoch, step] : {std::pair(1, 10), std::pair(2, 4), std::pair(2, 5)}) {
    run.progress.epoch = epoch;
    run.progress.global_step = step;
    CHECK(run.conditions().stopping() == (step == 5));
    CHECK(run.conditions().ends_epoch() == (step == 5));
  }
  CHECK(run.reason() == "rank 1 requested it");
}

TEST_CASE("an epoch without batches ends training, before all other reasons") {
  Run run;
  run.options.max_epochs = 1;
  run.plan = EpochPlan({0, 0}, /*stop_with_first=*/false);
  run.stop.agree_to_stop();
  CHECK(run.reason() == "no training batches");
}
