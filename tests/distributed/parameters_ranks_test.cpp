#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

namespace {

using levin::test::check_numbers;
using levin::test::numbers_in;

/// A scenario of parameters_program, in which hooks change parameters.
struct Run : levin::test::GoodRun {
  Run(const std::string& scenario, int ranks, const std::vector<std::string>& settings)
      : GoodRun("parameters", scenario, ranks, settings) {}
};

}  // namespace

TEST_CASE("ranks whose hooks change parameters train on with equal weights, which are those of one process") {
  const std::string change = GENERATE("unfreeze", "freeze", "freeze_alone", "add", "replace", "unused");
  const std::string manner = GENERATE("manual=0", "manual=1", "accumulate=3");
  const std::string strategy = change == "freeze_alone" ? GENERATE("auto", "ddp_find_unused_parameters_true") : "auto";
  const Run one("in_every_hook", 1, {"change=" + change, manner});
  const Run several("in_every_hook", change == "unfreeze" ? 3 : 2, {"change=" + change, manner, "strategy=" + strategy});
  CHECK(one.by_rank[0].size() >= 15);
  for (const auto& [hook, weights] : one.by_rank[0]) {
    // Votes have been sent by then: in this step a frozen parameter has a gradient of zero, and none on one process.
    if (change == "freeze_alone" && hook == "backward") continue;
    INFO(change << " in " << hook << " with " << manner << ", strategy " << strategy);
    check_numbers(several.common_numbers(hook), numbers_in(weights.back()));
  }
}

TEST_CASE("what a step's losses have in common, and freeze by turns, is reduced as on one process") {
  const std::string frozen = GENERATE("none", "one", "both");
  const std::string unused = frozen == "both" ? GENERATE("unused=0", "unused=1") : "unused=1";
  const int ranks = GENERATE(1, 2, 3);
  const Run one("two_losses", 1, {"frozen=" + frozen});
  const Run several("two_losses", ranks, {"frozen=" + frozen, unused});
  check_numbers(several.common_numbers("weights"), one.common_numbers("weights"));
}

TEST_CASE("what a callback trains later or prunes leads to one process's weights, and resumes on other numbers of ranks") {
  const std::string callback = GENERATE("callback=BackboneFinetuning", "callback=ModelPruning");
  const std::string strategy = GENERATE("strategy=ddp", "strategy=ddp_sharded");
  Run several("changed_by_callback", 1, {callback});
  const std::vector<double> expected = several.common_numbers("weights");
  REQUIRE(expected.size() == 9);
  const auto check = [&](int ranks, const std::vector<std::string>& settings) {
    several.start("parameters", "changed_by_callback", ranks, settings);
    check_numbers(several.common_numbers("weights"), expected, Approx::custom().epsilon(1e-4));
  };
  check(2, {callback, strategy});
  for (const std::string step : {"3", "6"}) {
    check(1, {callback, "ckpt=2_" + step + ".ckpt"});
    check(2, {callback, strategy, "ckpt=1_" + step + ".ckpt"});
  }
}

TEST_CASE("toggled optimizers train by turns to the weights of one process, and set up nothing for it") {
  const int ranks = GENERATE(2, 3);
  const std::string how = GENERATE("unused=0", "unused=1", "counted=1", "tied=1");
  const Run one("two_losses", 1, {"frozen=both"}), alone("two_losses", 1, {"frozen=toggled"});
  CHECK(alone.text(0, "weights") == one.text(0, "weights"));
  const Run several("two_losses", ranks, {"frozen=toggled", how});
  check_numbers(several.common_numbers("weights"), one.common_numbers("weights"));
  several.check_everywhere("changes", 0);
  const Run by_hand("two_losses", ranks, {"frozen=both", "counted=1"});
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
  const Run warning("watched", 3, {"what=" + what, "on=warn"});
  CHECK_THAT(warning.outcome.err, Catch::Contains("warning: GradientSyncCheck: " + message));
  CHECK(warning.number(2, "steps") == 5);
}

TEST_CASE("a check of gradients is content with equal ranks, and names parameters without a gradient once") {
  const int ranks = GENERATE(1, 3);
  const Run good("watched", ranks, {"what=nothing"});
  CHECK_THAT(good.outcome.err, !Catch::Contains("GradientSyncCheck"));
  const Run unused("watched", ranks, {"what=unused"});
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
  const levin::test::RankRun run("parameters", "in_every_hook", 2, {"change=" + change, "hook=" + hook, "rank=1"});
  CHECK(run.outcome.status != 0);
  CHECK_THAT(run.outcome.err, Catch::Contains(message));
  CHECK(!run.has(0, hook));
  CHECK(!run.has(1, hook));
}
