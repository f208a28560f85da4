#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

namespace {

/// parameters_program, in which hooks change parameters.
struct Run : levin::test::RankRun {
  Run(int ranks, const std::vector<std::string>& settings) : RankRun("parameters_program", "in_every_hook", ranks, settings) {}
};

}  // namespace

TEST_CASE("ranks whose hooks change parameters train on with equal weights, which are those of one process") {
  const std::string change = GENERATE("unfreeze", "freeze", "add", "replace", "unused");
  const std::string manner = GENERATE("manual=0", "manual=1", "accumulate=3");
  const int ranks = change == "unfreeze" ? 3 : 2;
  const Run one(1, {"change=" + change, manner});
  INFO(one.outcome.text());
  REQUIRE(one.outcome.ok());
  const Run several(ranks, {"change=" + change, manner});
  INFO(several.outcome.text());
  REQUIRE(several.outcome.ok());
  CHECK(one.by_rank[0].size() >= 15);
  for (const auto& [hook, weights] : one.by_rank[0]) {
    INFO(change << " in " << hook << " with " << manner);
    for (std::size_t rank = 1; rank < several.by_rank.size(); ++rank) CHECK(several.text(rank, hook) == several.text(0, hook));
    const std::vector<double> expected = levin::test::numbers_in(weights.back());
    const std::vector<double> found = levin::test::numbers_in(several.text(0, hook));
    for (std::size_t index = 0; index < expected.size(); ++index) CHECK(found[index] == Approx(expected[index]));
  }
}

TEST_CASE("what a step's losses have in common, and freeze by turns, is reduced as on one process") {
  const std::string frozen = GENERATE("none", "one", "both");
  const std::string unused = frozen == "both" ? GENERATE("unused=0", "unused=1") : "unused=1";
  const int ranks = GENERATE(1, 2, 3);
  levin::test::RankRun one("parameters_program", "two_losses", 1, {"frozen=" + frozen});
  INFO(one.outcome.text());
  REQUIRE(one.outcome.ok());
  const levin::test::RankRun several("parameters_program", "two_losses", ranks, {"frozen=" + frozen, unused});
  INFO(frozen << " frozen, " << unused << ", " << ranks << " ranks\n" << several.outcome.text());
  REQUIRE(several.outcome.ok());
  const std::vector<double> expected = levin::test::numbers_in(one.text(0, "weights"));
  for (std::size_t rank = 0; rank < several.by_rank.size(); ++rank) {
    CHECK(several.text(rank, "weights") == several.text(0, "weights"));
    const std::vector<double> found = levin::test::numbers_in(several.text(rank, "weights"));
    for (std::size_t index = 0; index < expected.size(); ++index) CHECK(found[index] == Approx(expected[index]));
  }
}

TEST_CASE("parameters that change on one rank alone end all ranks with an error that names the first") {
  const std::string hook = GENERATE("on_train_start", "on_train_batch_start", "on_before_backward", "on_validation_end");
  const auto [change, message] = GENERATE(table<std::string, std::string>(
      {{"unfreeze", "Rank 0 has `parameter second [1] Float not trained`, rank 1 has `parameter second [1] Float unfrozen`"},
       {"freeze", "Rank 0 has `parameter first [1] Float`, rank 1 has `parameter first [1] Float not trained`"},
       {"add", "Rank 0 has `nothing more`, rank 1 has `parameter third [1] Float new`"},
       {"replace", "Rank 0 has `parameter first [1] Float`, rank 1 has `parameter first [1] Float new`"},
       {"unused", "rank 1 has `optimizer 0, group 1: 1 parameters"}}));
  const Run run(2, {"change=" + change, "hook=" + hook, "rank=1"});
  INFO(change << " in " << hook << "\n" << run.outcome.text());
  CHECK(run.outcome.status != 0);
  CHECK_THAT(run.outcome.err, Catch::Contains(message));
  CHECK(!run.has(0, hook));
  CHECK(!run.has(1, hook));
}
