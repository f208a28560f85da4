#include "levin/callbacks/live/run_pace.h"

#include <catch2/catch.hpp>
#include <optional>

using namespace levin;

TEST_CASE("a run ends with the first of its limits, at the pace so far") {
  CHECK(seconds_to_end({.seconds = 10, .batches = 20}) == std::nullopt);
  CHECK(seconds_to_end({.seconds = 10, .batches = 20, .batches_left = 60}) == 30.0);
  CHECK(seconds_to_end({.seconds = 10, .batches = 20, .steps = 5, .batches_left = 60, .steps_left = 10}) == 20.0);
  CHECK(seconds_to_end({.seconds = 10, .batches = 20, .batches_left = 60, .seconds_left = 7.0}) == 7.0);
  CHECK(seconds_to_end({.seconds = 10, .batches = 20, .batches_left = -3}) == 0.0);
  // No pace yet.
  CHECK(seconds_to_end({.batches_left = 60}) == std::nullopt);
  CHECK(seconds_to_end({.seconds = 3, .batches_left = 60, .seconds_left = 7.0}) == 7.0);
}
