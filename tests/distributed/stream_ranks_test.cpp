#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

TEST_CASE("a stream's source is told of each epoch and its ranks, and a run resumes within one exactly") {
  using Texts = std::vector<std::string>;
  const int ranks = GENERATE(1, 2);
  levin::test::RankRun run("stream", "", ranks, {"part=whole"});
  REQUIRE(run.outcome.ok());
  const auto whole = run.by_rank;
  REQUIRE(whole.size() == static_cast<std::size_t>(ranks));
  run.start("stream", "", ranks, {"part=resumes"});
  REQUIRE(run.outcome.ok());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& before = whole[static_cast<std::size_t>(rank)];
    const auto& after = run.by_rank[static_cast<std::size_t>(rank)];
    const std::string of_rank = "/" + std::to_string(rank) + "/" + std::to_string(ranks);
    CHECK(before.at("begun") == Texts{"0" + of_rank, "1" + of_rank, "2" + of_rank});
    CHECK(before.at("batches") == Texts{"50", "50", "50"});
    CHECK(after.at("begun") == Texts{"1" + of_rank, "2" + of_rank});
    CHECK(after.at("seen") == before.at("seen"));
    CHECK(after.at("weight") == before.at("weight"));
  }
  if (ranks == 2) CHECK(whole[0].at("seen") != whole[1].at("seen"));
}
