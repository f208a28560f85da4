#include "levin/core/engine/parts/progress.h"

#include <catch2/catch.hpp>
#include <stdexcept>

using namespace levin;

namespace {

/// In the middle of training.
Progress in_training() {
  Progress progress;
  progress.batch = {.batch_idx = 7, .is_last = true, .has_next = false, .loaders = {{.batches = 8}}};
  return progress;
}

}  // namespace

TEST_CASE("a stage inside another one has loaders of its own, and gives the outer one's back") {
  Progress progress = in_training();
  {
    StageScope scope(progress, Stage::kValidate, {{.batches = 0}, {.batches = 0}});
    CHECK(progress.stage == Stage::kValidate);
    CHECK(progress.batch.loaders.size() == 2);
    progress.batch.batch_idx = 3;
    progress.batch.dataloader_idx = 1;
    progress.batch.is_last = false;
    progress.batch.loaders[1].batches = 4;

    scope.end_batches();
    CHECK(progress.stage == Stage::kValidate);
    CHECK(progress.batch.batch_idx == 7);
    CHECK(progress.batch.dataloader_idx == 0);
    CHECK(progress.batch.is_last);
    CHECK(progress.batch.loaders.at(1).batches == 4);
  }
  CHECK(progress.stage == Stage::kTrain);
  CHECK(progress.batch.batch_idx == 7);
  CHECK_FALSE(progress.batch.has_next);
  REQUIRE(progress.batch.loaders.size() == 1);
  CHECK(progress.batch.loaders[0].batches == 8);
}

TEST_CASE("an error leaves the stage as it is, for whoever reports where it happened") {
  Progress progress = in_training();
  try {
    const StageScope scope(progress, Stage::kValidate, {{.batches = 2}});
    progress.batch.batch_idx = 1;
    throw std::runtime_error("a step failed");
  } catch (const std::runtime_error&) {
    CHECK(progress.stage == Stage::kValidate);
    CHECK(progress.batch.batch_idx == 1);
    CHECK(progress.batch.loaders.at(0).batches == 2);
  }
}
