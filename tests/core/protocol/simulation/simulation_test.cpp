#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "core/protocol/simulation/runner.h"

using namespace levin::testing;

namespace {

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

}  // namespace

// LEVIN_SIMULATION_SEED is the first program's seed, LEVIN_SIMULATION_PROGRAMS the number of programs.
TEST_CASE("generated programs end as one process says they must, and none hangs") {
  const std::uint64_t first = number_from_environment("LEVIN_SIMULATION_SEED", 1);
  const std::uint64_t programs = number_from_environment("LEVIN_SIMULATION_PROGRAMS", 20000);
  SimulatedRanks ranks;
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + programs && failures < 5; ++seed) {
    const std::string difference = run_and_compare(ranks, generate(seed));
    if (difference.empty()) continue;
    ++failures;
    UNSCOPED_INFO(difference);
    CHECK(difference.empty());
  }
  CHECK(failures == 0);
}
