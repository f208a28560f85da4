#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "core/console/pseudo_terminal.h"
#include "distributed/rank_run.h"
#include "support/whole_matrix.h"

// Like core/state/resume_test.cpp, on several ranks, each a process. One program by hand:
// build/bin/inside_programs resume ranks=2 folder=$(mktemp -d) seed=5
TEST_CASE("runs of several ranks resume exactly, to the bit, from points of generated programs") {
  const int ranks = GENERATE(2, 4);
  const bool whole = levin::test::is_whole_matrix();
  // For 16 and 200 see core/state/resume_test.cpp; 59: a hook unfreezes what a static graph has not learned.
  // 15: a parameter is frozen between a local batch and the one that reduces.
  std::vector<int> seeds = ranks == 2 ? std::vector{1, 2, 3, 15, 16, 59, 200} : std::vector{1, 2};
  if (whole) {
    seeds.resize(40);
    std::iota(seeds.begin(), seeds.end(), 1);
  }
  const std::string stride = whole ? "1" : "3";
  for (const int seed : seeds) {
    const levin::test::RankRun run("resume", "", ranks, {"seed=" + std::to_string(seed), "stride=" + stride},
                                   "inside_programs");
    REQUIRE(run.outcome.ok());
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) CHECK(run.number(rank, "equal") == 1);
  }
}

TEST_CASE("runs of several ranks resume exactly from points of a generated program for each source of data") {
  const int ranks = GENERATE(2, 3);
  const std::string stride = ranks == 2 ? "15" : "60";
  for (const std::string source : {"lines", "json_lines", "shards", "several", "arrays", "tokens", "images"}) {
    const levin::test::RankRun run("resume", "", ranks, {"source=" + source, "stride=" + stride}, "inside_programs");
    REQUIRE(run.outcome.ok());
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) CHECK(run.number(rank, "equal") == 1);
  }
}

TEST_CASE("ranks that a session drives train as under fit(), to the bit, and resume there from points of generated programs") {
  const int ranks = GENERATE(2, 4);
  std::vector<int> seeds = {1, 2, 3, 4, 5, 6};
  if (levin::test::is_whole_matrix()) {
    seeds.resize(40);
    std::iota(seeds.begin(), seeds.end(), 1);
  } else if (ranks == 4) {
    seeds = {1, 2};
  }
  for (const int seed : seeds) {
    const levin::test::RankRun run("resume", "", ranks, {"seed=" + std::to_string(seed), "stride=4", "session=1"},
                                   "inside_programs");
    REQUIRE(run.outcome.ok());
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) CHECK(run.number(rank, "equal") == 1);
  }
}

TEST_CASE("ranks with a device each, which reduce gradients there, resume exactly") {
  const levin::test::EnvironmentVariable backend("QUEUED_BACKEND", "1"), devices("QUEUED_DEVICES", "2");
  for (const int seed : {1, 3, 6}) {
    const levin::test::RankRun run(
        "resume", "", 2, {"seed=" + std::to_string(seed), "stride=5", "accelerator=QueuedAccelerator"}, "inside_programs");
    REQUIRE(run.outcome.ok());
    for (std::size_t rank = 0; rank < 2; ++rank) CHECK(run.number(rank, "equal") == 1);
  }
}

TEST_CASE("runs on a device of its own resume exactly, though the module moves there and numbers are read late") {
  // 2: averaged weights, of which a callback keeps tensors; 14, 24: sums on the device that a save reads.
  for (const int seed : {2, 14, 24, 27, 28, 34}) {
    const levin::test::RankRun run(
        "resume", "", 1, {"seed=" + std::to_string(seed), "stride=5", "accelerator=QueuedAccelerator"}, "inside_programs");
    REQUIRE(run.outcome.ok());
    CHECK(run.number(0, "equal") == 1);
  }
}
