#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/resume_plans.h"
#include "support/temporary_folder.h"

using namespace levin::test;

// LEVIN_RESUME_SEED=… replays one program; LEVIN_RESUME_PROGRAMS=… runs so many.
TEST_CASE("a run resumes exactly from every hook of generated programs") {
  const char* one = std::getenv("LEVIN_RESUME_SEED");
  const char* count = std::getenv("LEVIN_RESUME_PROGRAMS");
  const std::uint64_t first = one != nullptr ? std::stoull(one) : 1;
  const std::uint64_t programs = one != nullptr ? 1 : count != nullptr ? std::stoull(count) : 8;
  for (std::uint64_t seed = first; seed < first + programs; ++seed) {
    INFO("LEVIN_RESUME_SEED=" << seed);
    const TemporaryFolder folder;
    CHECK(check_resume_plan(random_resume_plan(seed), folder.path()) == "");
  }
}
