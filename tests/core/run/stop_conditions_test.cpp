#include "levin/core/engine/parts/epoch_plan.h"

#include <catch2/catch.hpp>

using namespace levin;

namespace {

struct Training {
  TrainerOptions options;
  Progress progress;
  StopRequest stop;
  int world_size = 1;
  EpochPlan plan = EpochPlan({10}, /*stop_with_first=*/false);

  StopConditions conditions() const { return {options, progress, stop, world_size}; }
  std::optional<std::string> reason() const { return conditions().reason(plan); }
};

}  // namespace

TEST_CASE("training goes on while nothing ends it") {
  Training training;
  training.options.max_epochs = -1;
  training.progress.epoch = 1000000;
  CHECK(training.reason() == std::nullopt);
  CHECK_FALSE(training.conditions().ends_epoch());
}

TEST_CASE("max_epochs ends training at an epoch's end, max_steps within one") {
  Training training;
  training.options.max_epochs = 3;
  training.options.max_steps = 25;
  training.progress.epoch = 2;
  training.progress.global_step = 24;
  CHECK(training.reason() == std::nullopt);
  CHECK_FALSE(training.conditions().ends_epoch());
  training.progress.global_step = 25;
  CHECK(training.conditions().ends_epoch());
  CHECK(training.reason() == "max_steps=25 reached");
  training.progress.global_step = 24;
  training.progress.epoch = 3;
  CHECK_FALSE(training.conditions().ends_epoch());
  CHECK(training.reason() == "max_epochs=3 reached");
}

TEST_CASE("an agreed stop waits for min_epochs and min_steps, and says who asked") {
  Training training;
  training.world_size = 2;
  training.options.max_epochs = 9;
  training.options.min_epochs = 2;
  training.options.min_steps = 5;
  training.stop.adopt({Votes{}, Votes{.stop = true}});
  training.progress.epoch = 1;
  training.progress.global_step = 10;
  CHECK_FALSE(training.conditions().stopping());
  training.progress.epoch = 2;
  training.progress.global_step = 4;
  CHECK_FALSE(training.conditions().ends_epoch());
  training.progress.global_step = 5;
  CHECK(training.conditions().stopping());
  CHECK(training.conditions().ends_epoch());
  CHECK(training.reason() == "rank 1 asked for it");
}

TEST_CASE("an epoch without batches ends training, before all other reasons") {
  Training training;
  training.options.max_epochs = 1;
  training.plan = EpochPlan({0, 0}, /*stop_with_first=*/false);
  training.stop.agree();
  CHECK(training.reason() == "no training batches");
}
