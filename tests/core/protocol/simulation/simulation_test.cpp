#include <sched.h>

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

/// Keeps this process's threads on the core they are on. Simulated ranks take turns: where each turn has to wake a thread on
/// another core, a busy machine takes a hundred times as long.
class OnOneCore {
 public:
  OnOneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof before_, &before_); }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace

// LEVIN_SIMULATION_SEED is the first program's seed, LEVIN_SIMULATION_PROGRAMS the number of programs.
TEST_CASE("generated programs end as one process says they must, and none hangs") {
  const std::uint64_t first = number_from_environment("LEVIN_SIMULATION_SEED", 1);
  const std::uint64_t programs = number_from_environment("LEVIN_SIMULATION_PROGRAMS", 5000);
  const OnOneCore on_one_core;
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
