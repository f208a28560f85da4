#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

namespace {

/// parameters_program, in which hooks change parameters.
struct Run : levin::test::RankRun {
  Run(int ranks, const std::vector<std::string>& settings) : RankRun("parameters", "in_every_hook", ranks, settings) {}
};

}  // namespace

TEST_CASE("ranks whose hooks change parameters train on with equal weights, which are those of one process") {
  const std::string change = GENERATE("unfreeze", "freeze", "freeze_alone", "add", "replace", "unused");
  const std::string manner = GENERATE("manual=0", "manual=1", "accumulate=3");
  const std::string strategy = change == "freeze_alone" ? GENERATE("auto", "ddp_find_unused_parameters_true") : "auto";
  const int ranks = change == "unfreeze" ? 3 : 2;
  const Run one(1, {"change=" + change, manner});
  REQUIRE(one.outcome.ok());
  const Run several(ranks, {"change=" + change, manner, "strategy=" + strategy});
  REQUIRE(several.outcome.ok());
  CHECK(one.by_rank[0].size() >= 15);
  for (const auto& [hook, weights] : one.by_rank[0]) {
    // Votes have been sent by then: in this step a frozen parameter has a gradient of zero, and none on one process.
    if (change == "freeze_alone" && hook == "backward") continue;
    INFO(change << " in " << hook << " with " << manner << ", strategy " << strategy);
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
  levin::test::RankRun one("parameters", "two_losses", 1, {"frozen=" + frozen});
  REQUIRE(one.outcome.ok());
  const levin::test::RankRun several("parameters", "two_losses", ranks, {"frozen=" + frozen, unused});
  REQUIRE(several.outcome.ok());
  const std::vector<double> expected = levin::test::numbers_in(one.text(0, "weights"));
  for (std::size_t rank = 0; rank < several.by_rank.size(); ++rank) {
    CHECK(several.text(rank, "weights") == several.text(0, "weights"));
    const std::vector<double> found = levin::test::numbers_in(several.text(rank, "weights"));
    for (std::size_t index = 0; index < expected.size(); ++index) CHECK(found[index] == Approx(expected[index]));
  }
}

TEST_CASE("what a callback trains later or prunes comes to one process's weights, and resumes on other numbers of ranks") {
  const std::string callback = GENERATE("callback=BackboneFinetuning", "callback=ModelPruning");
  const std::string strategy = GENERATE("strategy=ddp", "strategy=ddp_sharded");
  levin::test::RankRun several("parameters", "changed_by_callback", 1, {callback});
  REQUIRE(several.outcome.ok());
  const std::vector<double> expected = levin::test::numbers_in(several.text(0, "weights"));
  const auto check = [&](int ranks, const std::vector<std::string>& settings) {
    several.start("parameters", "changed_by_callback", ranks, settings);
    REQUIRE(several.outcome.ok());
    CHECK(several.text(0, "weights") == several.text(several.by_rank.size() - 1, "weights"));
    const std::vector<double> found = levin::test::numbers_in(several.text(0, "weights"));
    REQUIRE(found.size() == 9);
    for (std::size_t index = 0; index < expected.size(); ++index) CHECK(found[index] == Approx(expected[index]).epsilon(1e-4));
  };
  check(2, {callback, strategy});
  for (const std::string step : {"3", "6"}) {
    check(1, {callback, "ckpt=2_" + step + ".ckpt"});
    check(2, {callback, strategy, "ckpt=1_" + step + ".ckpt"});
  }
}

TEST_CASE("parameters that change between batches of one step are averaged alike, and runs saved before resume to the bit") {
  const std::string what = GENERATE("add", "unfreeze", "freeze");
  const std::string strategy = GENERATE("auto", "ddp_find_unused_parameters_true", "ddp_sharded");
  const int ranks = GENERATE(2, 3);
  const levin::test::RankRun run("parameters", "changed_between", ranks, {"what=" + what, "strategy=" + strategy});
  REQUIRE(run.outcome.ok());
  for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
    CHECK(run.by_rank[rank].at("weights") == run.by_rank[0].at("weights"));
    // Of the checkpoints of the batches 7 to 10, and 11.
    CHECK(run.number(rank, "on_after_backward") == 4);
    CHECK(run.number(rank, "on_train_batch_end") == 4);
    CHECK(run.number(rank, "on_train_batch_start") == 5);
  }
  CHECK(levin::test::numbers_in(run.text(0, "weights")).size() == (what == "add" ? 15 : 10));
}

TEST_CASE("toggled optimizers train by turns to the weights of one process, and nothing is set up anew for it") {
  const int ranks = GENERATE(2, 3);
  const std::string how = GENERATE("unused=0", "unused=1", "counted=1", "tied=1");
  levin::test::RankRun one("parameters", "two_losses", 1, {"frozen=both"});
  REQUIRE(one.outcome.ok());
  levin::test::RankRun alone("parameters", "two_losses", 1, {"frozen=toggled"});
  REQUIRE(alone.outcome.ok());
  CHECK(alone.text(0, "weights") == one.text(0, "weights"));
  const levin::test::RankRun several("parameters", "two_losses", ranks, {"frozen=toggled", how});
  REQUIRE(several.outcome.ok());
  const std::vector<double> expected = levin::test::numbers_in(one.text(0, "weights"));
  for (std::size_t rank = 0; rank < several.by_rank.size(); ++rank) {
    CHECK(several.text(rank, "weights") == several.text(0, "weights"));
    CHECK(several.number(rank, "changes") == 0);
    const std::vector<double> found = levin::test::numbers_in(several.text(rank, "weights"));
    for (std::size_t index = 0; index < expected.size(); ++index) CHECK(found[index] == Approx(expected[index]));
  }
  const levin::test::RankRun by_hand("parameters", "two_losses", ranks, {"frozen=both", "counted=1"});
  CHECK(by_hand.number(0, "changes") > 0);
}

TEST_CASE("a check of gradients names what differs, on which rank and by how much") {
  const auto [what, message] = GENERATE(table<std::string, std::string>(
      {{"rates", "before step 3 of SGD, ranks do not have the same as rank 0:\n  weights of first: rank 1 by up to "},
       {"local", "before step 2 of SGD, ranks do not have the same as rank 0:\n  gradient of first: rank 1 by up to 0.5"},
       {"no_gradient", "before step 2 of SGD, ranks do not have the same as rank 0:\n  gradient of second: rank 2 has none"}}));
  const levin::test::RankRun error("parameters", "watched", 3, {"what=" + what});
  CHECK(error.outcome.status != 0);
  CHECK_THAT(error.outcome.err, Catch::Contains("GradientSyncCheck: " + message));
  CHECK(!error.has(0, "steps"));
  const levin::test::RankRun warning("parameters", "watched", 3, {"what=" + what, "on=warn"});
  REQUIRE(warning.outcome.ok());
  CHECK_THAT(warning.outcome.err, Catch::Contains("warning: GradientSyncCheck: " + message));
  CHECK(warning.number(2, "steps") == 5);
}

TEST_CASE("a check of gradients is content with equal ranks, and names parameters without a gradient once") {
  const int ranks = GENERATE(1, 3);
  const levin::test::RankRun good("parameters", "watched", ranks, {"what=nothing"});
  REQUIRE(good.outcome.ok());
  CHECK_THAT(good.outcome.err, !Catch::Contains("GradientSyncCheck"));
  const levin::test::RankRun unused("parameters", "watched", ranks, {"what=unused"});
  REQUIRE(unused.outcome.ok());
  const std::string text = "GradientSyncCheck: SGD steps without a gradient of second.";
  CHECK_THAT(unused.outcome.err, Catch::Contains(text));
  CHECK(unused.outcome.err.find(text) == unused.outcome.err.rfind(text));
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
  CHECK(run.outcome.status != 0);
  CHECK_THAT(run.outcome.err, Catch::Contains(message));
  CHECK(!run.has(0, hook));
  CHECK(!run.has(1, hook));
}
