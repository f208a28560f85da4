#include "levin/core/engine/parts/epoch_plan.h"

#include <catch2/catch.hpp>

using levin::Interval;
using levin::TrainerOptions;
using levin::TrainingLength;

namespace {

struct Training {
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

std::optional<std::int64_t> steps(const Training& training) { return training.length().optimizer_steps(); }

struct Count {
  std::int64_t optimizer = 0, schedule = 0;
};

/// Goes through training batch by batch, as the loops do.
Count counted_steps(const Training& training, Interval interval, std::int64_t frequency) {
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

}  // namespace

TEST_CASE("the optimizer's steps are those of all epochs, and no more than max_steps, as in Lightning") {
  CHECK(steps({.batches = 10, .max_epochs = 3}) == 30);
  CHECK(steps({.batches = 10, .max_epochs = 3, .accumulate = 4}) == 9);
  CHECK(steps({.batches = 10, .max_epochs = 3, .max_steps = 12}) == 12);
  CHECK(steps({.batches = 10, .max_epochs = 3, .max_steps = 50}) == 30);
  CHECK(steps({.batches = 10, .max_epochs = 0}) == 10);
  CHECK(steps({.batches = -1, .max_epochs = 3}) == std::nullopt);
  CHECK(steps({.batches = -1, .max_epochs = 3, .max_steps = 12}) == 12);
  CHECK(steps({.batches = 10, .max_epochs = -1}) == std::nullopt);
  CHECK(steps({.batches = 10, .max_epochs = -1, .max_steps = 12}) == 12);
}

TEST_CASE("the training loader is asked for only where its length matters") {
  const auto asks = [](const Training& training, auto use) {
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
          const Training training{.batches = batches, .max_epochs = 3, .max_steps = max_steps, .accumulate = accumulate};
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

TEST_CASE("a schedule by epochs needs no number of batches, one by steps of unknown epochs only max_steps") {
  CHECK(Training{.batches = -1, .max_epochs = 6}.length().schedule_steps(Interval::kEpoch, 2) == 3);
  CHECK(Training{.batches = -1, .max_epochs = 6}.length().schedule_steps(Interval::kStep, 1) == std::nullopt);
  CHECK(Training{.batches = -1, .max_epochs = -1, .max_steps = 10}.length().schedule_steps(Interval::kStep, 2) == 5);
  CHECK(Training{.batches = -1, .max_epochs = -1, .max_steps = 10}.length().schedule_steps(Interval::kEpoch, 1) ==
        std::nullopt);
  CHECK(Training{.batches = 4, .max_epochs = -1, .max_steps = 10}.length().schedule_steps(Interval::kEpoch, 1) == 3);
}
