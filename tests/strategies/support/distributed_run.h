#pragma once

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "strategies/support/child_program.h"

namespace levin_test {

/// A scenario of strategies_distributed_program.
struct Distributed : ChildProgram {
  Distributed(const std::string& scenario, int ranks, const std::string& control_group = "auto")
      : ChildProgram({LEVIN_BINARY_DIR "/bin/strategies_distributed_program", scenario, std::to_string(ranks), control_group},
                     {{"OMP_NUM_THREADS", "1"}}, How::kCopied) {}
};

inline constexpr auto kLimit = std::chrono::seconds(60);

/// Runs a training on so many ranks; all must end with the same bits. Gives the sum of the weights.
inline double train(const std::string& scenario, int ranks, const std::string& control_group = "auto") {
  Distributed program(scenario, ranks, control_group);
  REQUIRE(program.wait(kLimit) == 0);
  const auto bits = program.values("bits");
  REQUIRE(bits.size() == static_cast<std::size_t>(ranks));
  CHECK(std::set<std::string>(bits.begin(), bits.end()).size() == 1);
  return std::stod(program.values("sum")[0]);
}

}  // namespace levin_test
