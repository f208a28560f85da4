#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "support/resume_plans.h"
#include "support/temporary_folder.h"

using namespace levin::test;

// LEVIN_RESUME_SEED=… replays one program; LEVIN_RESUME_PROGRAMS=… runs so many, from each of their hooks.
TEST_CASE("a run resumes exactly from every hook of generated programs") {
  const char* one = std::getenv("LEVIN_RESUME_SEED");
  const char* count = std::getenv("LEVIN_RESUME_PROGRAMS");
  // The last three: a part that a hook has frozen no longer drops out, data that looks at the counters, a group that a hook
  // has added and a schedule has changed.
  std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6, 16, 27, 42};
  if (one != nullptr) seeds = {std::stoull(one)};
  if (count != nullptr) {
    seeds.resize(std::stoull(count));
    std::iota(seeds.begin(), seeds.end(), 1);
  }
  const std::size_t stride = one != nullptr || count != nullptr ? 1 : 4;
  for (const std::uint64_t seed : seeds) {
    INFO("LEVIN_RESUME_SEED=" << seed);
    const TemporaryFolder folder;
    CHECK(check_resume_plan(random_resume_plan(seed), folder.path(), stride) == "");
  }
}
