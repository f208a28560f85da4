// The calls of a control group, in any order, when all ranks make the same and when one does not.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "support/error_of.h"
#include "support/group_program.h"
#include "support/simulated_ranks.h"

namespace levin::testing {
namespace {

/// What the text of this rank's error must contain; empty if it has none.
std::vector<std::string> expected_error(const GroupProgram& program, GroupFault fault, int rank) {
  const std::string gone = "gone: " + std::to_string(program.faulty_rank());
  const bool is_faulty = rank == program.faulty_rank();
  if (fault == GroupFault::kDies) return {is_faulty ? "died on purpose" : gone};
  if (fault == GroupFault::kEndsWell) return is_faulty ? std::vector<std::string>() : std::vector{gone};
  return program.expected_error();
}

TEST_CASE("calls of a group give every rank what they promise, and one that differs is an error on all that names each") {
  SimulatedRanks simulation;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const auto fault = static_cast<GroupFault>(seed % kGroupFaults);
    const int ranks = 2 + static_cast<int>(seed / kGroupFaults % 4);
    const GroupProgram program(seed, ranks, fault);
    const SimulationResult result = simulation.run(ranks, seed, [&](ControlGroup& group) { program.run(group); });
    INFO("seed " << seed << ", fault " << static_cast<int>(fault) << " of rank " << program.faulty_rank() << " in call "
                 << program.faulty_call());
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string text = test::error_of(result.errors[static_cast<std::size_t>(rank)]);
      const std::vector<std::string> expected = expected_error(program, fault, rank);
      INFO("rank " << rank << ": " << text);
      REQUIRE(text.empty() == expected.empty());
      for (const std::string& part : expected) REQUIRE(text.find(part) != std::string::npos);
    }
    // No rank gets further than the call in which all learn of it.
    REQUIRE(result.exchanges ==
            static_cast<std::int64_t>(fault == GroupFault::kNone ? program.calls() : program.faulty_call()));
    REQUIRE(result.hung == (fault == GroupFault::kEndsWell));
  }
}

TEST_CASE("one rank alone gathers and broadcasts what it has") {
  SingleProcessGroup group;
  CHECK(group.gather("x", 1, "a test") == std::vector<std::string>{"x"});
  CHECK(group.broadcast("y", 0, 1, "a test") == "y");
  CHECK_THROWS_WITH(group.broadcast("y", 1, 1, "a test"), "broadcast in a test: there is no rank 1 among 1");
}

TEST_CASE("all_gathers of other sizes are different calls; gathers and broadcasts of other sizes are the same") {
  using enum GroupOperation;
  CHECK(describe_different_calls({{kAllGather, "x", 8}, {kAllGather, "x", 9}}) ==
        "ranks met in different calls:\n  rank 0: x (8 bytes)\n  rank 1: x (9 bytes)");
  CHECK(describe_different_calls({{kGather, "x", 8}, {kGather, "x", 9}}).empty());
  CHECK(describe_different_calls({{kBroadcast, "x", 8, 1}, {kBroadcast, "x", 0, 1}}).empty());
  CHECK(describe_too_long({{kAllGather, "x", 9}}, 8).empty());
}

}  // namespace
}  // namespace levin::testing
