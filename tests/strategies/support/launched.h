#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "strategies/support/child_program.h"

namespace levin_test {

/// Each test runs with ranks that the program starts anew, and with those of a fork server.
inline bool with_fork_server() { return GENERATE(false, true); }

inline ChildProgram::Environment clean() {
  ChildProgram::Environment environment = {
      {"RANK", ""}, {"WORLD_SIZE", ""}, {"LOCAL_RANK", ""}, {"SLURM_NTASKS", ""}, {"OMPI_COMM_WORLD_SIZE", ""}};
  if (with_fork_server()) environment.emplace_back("WITH_FORK_SERVER", "1");
  return environment;
}

/// A scenario of strategies_launched_program, under levin's launcher.
struct Launched : ChildProgram {
  Launched(const std::string& scenario, int ranks, ChildProgram::Environment environment = clean())
      : ChildProgram({LEVIN_BINARY_DIR "/bin/strategies_launched_program", scenario, std::to_string(ranks), "an argument"},
                     environment) {}
};

}  // namespace levin_test
