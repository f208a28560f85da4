// Requests of Trainer::request(), which take effect in the same step on all ranks.
#include <catch2/catch.hpp>
#include <csignal>

#include "distributed/rank_run.h"

namespace levin::test {
namespace {

/// The ways in which votes travel.
struct Manner {
  int ranks;
  std::vector<std::string> settings;
};

std::vector<Manner> manners() { return {{1, {}}, {1, {"manual=1"}}, {2, {}}, {3, {}}, {2, {"manual=1"}}, {2, {"group=gloo"}}}; }

std::vector<std::string> with(std::vector<std::string> settings, const std::string& more) {
  settings.push_back(more);
  return settings;
}

using Events = std::vector<std::string>;

TEST_CASE("all ranks save and validate after the step in which any of them requested it") {
  const Manner manner = GENERATE(from_range(manners()));
  const int asks = GENERATE(0, 1);
  if (asks >= manner.ranks) return;
  const GoodRun run("commands", "both", manner.ranks, with(manner.settings, "asks=" + std::to_string(asks)));
  for (const auto& facts : run.by_rank) {
    CHECK(facts.at("event") == Events{"train@1", "train@2", "train@3", "save@3", "validate@3", "train@4", "train@5", "train@6",
                                      "validate@6", "end@6"});
  }
  CHECK(std::filesystem::exists(run.folder / "checkpoints/manual-epoch=0-step=3.ckpt"));
  CHECK(run.outcome.out.find("manual-epoch=0-step=3.ckpt") != std::string::npos);
}

TEST_CASE("all ranks pause after one step, obey while they wait, and continue together to the same end") {
  const Manner manner = GENERATE(from_range(manners()));
  const GoodRun run("commands", "pause", manner.ranks, manner.settings);
  for (const auto& facts : run.by_rank) {
    Events events = facts.at("event");
    std::erase(events, "paused");  // as its thread has seen it
    CAPTURE(events);
    REQUIRE(events.size() == 10);
    CHECK(events.size() + 1 == facts.at("event").size());
    // Both were requested during the pause: either may be agreed on first.
    CHECK((events[3] == "save@3" || events[4] == "save@3"));
    CHECK((events[3] == "validate@3" || events[4] == "validate@3"));
  }
  // The weights of a run without requests.
  const GoodRun plain("commands", "plain", manner.ranks, with(manner.settings, "asks=-1"));
  run.check_everywhere("weight", plain.number(0, "weight"));
  run.check_everywhere("global_step", 6);
}

TEST_CASE("training ends with the epoch in which a rank asked for that") {
  const int ranks = GENERATE(1, 2);
  const GoodRun run("commands", "stop", ranks, {"asks=" + std::to_string(ranks - 1)});
  run.check_everywhere("global_step", 6);
  CHECK(run.outcome.out.find("Training stopped: ") != std::string::npos);
}

TEST_CASE("a pause ends with a stop, an interruption, or the end of a rank") {
  const int ranks = GENERATE(1, 2, 3);
  const RankRun stopped("commands", "stopped", ranks);
  CHECK(stopped.outcome.ok());
  stopped.check_everywhere("global_step", 3);
  const RankRun interrupted("commands", "interrupted", ranks);
  CHECK(interrupted.outcome.status == 128 + SIGINT);
  if (ranks == 1) return;
  const RankRun killed("commands", "killed", ranks);
  CHECK(killed.outcome.status == 128 + SIGKILL);
  CHECK_FALSE(killed.outcome.timed_out);
}

}  // namespace
}  // namespace levin::test
