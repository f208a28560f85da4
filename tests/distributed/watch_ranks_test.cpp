#include <catch2/catch.hpp>

#include "distributed/rank_run.h"
#include "levin/core/base/process.h"
#include "levin/core/config/value_json.h"
#include "support/file_text.h"

using levin::Value;

namespace {

using levin::test::read_text;

/// A scenario of watch_program.
struct Run : levin::test::GoodRun {
  Run(const std::string& scenario, int ranks, const std::vector<std::string>& settings = {})
      : GoodRun("watch", scenario, ranks, settings) {}
};

}  // namespace

TEST_CASE("a spike of the loss ends all ranks at the batch that Lightning ends them at, and lists it") {
  const Value cases = levin::parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/spike_references.json"));
  for (const Value& one : cases.as_list()) {
    const auto& losses = one.at("losses").as_list();
    std::vector<std::string> settings;
    for (const auto& [name, value] : one.at("options").as_map()) settings.push_back(name + "=" + levin::to_json(value));
    for (std::size_t rank = 0; rank < losses.size(); ++rank)
      settings.push_back("losses_" + std::to_string(rank) + "=" + losses[rank].as_string());
    INFO(levin::to_json(one));
    const levin::test::RankRun run("watch", "spikes", static_cast<int>(losses.size()), settings);
    const std::int64_t batch = one.at("batch").as_int();
    CHECK(run.outcome.ok() == (batch < 0));
    if (batch < 0) continue;
    CHECK_THAT(run.outcome.err, Catch::Contains("in batch " + std::to_string(batch) + " of epoch 0"));
    if (losses.size() > 1) CHECK_THAT(run.outcome.err, Catch::Contains("failed with the same error in on_train_batch_end"));
    // Every rank's program can catch the error itself, as with Lightning.
    for (std::size_t rank = 0; rank < losses.size(); ++rank) {
      const std::string caught = read_text(run.folder / ("caught_" + std::to_string(rank)));
      CHECK_THAT(caught, Catch::StartsWith(std::to_string(batch) + "rank " + std::to_string(rank) + " failed") ||
                             (Catch::StartsWith(std::to_string(batch) + "failed") && Catch::Contains("SpikeDetection")));
    }
    CHECK(levin::parse_json(read_text(run.folder / "skip_batches.json")) == one.at("listed"));
  }
}

TEST_CASE("a rank that delays the others is reported once, with its host and what is slow") {
  const auto [slow_in, cause] = GENERATE(table<std::string, std::string>({{"loader", "the data loader"},
                                                                          {"training_step", "training_step"},
                                                                          {"backward", "the backward pass"},
                                                                          {"hooks", "hooks"}}));
  const int ranks = slow_in == "loader" ? 3 : 2;
  const Run run("straggler", ranks, {"slow_in=" + slow_in});
  const std::string said = run.outcome.text();
  const std::string rank = "Rank " + std::to_string(ranks - 1) + " on " + levin::host_name() + " delays the others";
  const std::size_t at = said.find(rank);
  REQUIRE(at != std::string::npos);
  CHECK(said.find(rank, at + 1) == std::string::npos);
  CHECK_THAT(said.substr(at), Catch::Contains("The difference is in " + cause));
  CHECK(run.number(0, "global_step") == 150);
}

TEST_CASE("of ranks that are equally fast none is reported") {
  const Run run("straggler", 2, {"slow_in=nothing"});
  CHECK_THAT(run.outcome.text(), !Catch::Contains("delays"));
}

TEST_CASE("all ranks skip a step, or roll back, for a loss that leaps on one of them") {
  const std::string strategy = GENERATE("ddp", "ddp_sharded");
  const auto [action, spike, out, uneven] = GENERATE(table<std::string, int, std::string, bool>(
      {{"skip", 10, "10-10", false}, {"rollback", 10, "8-10", false}, {"skip", 13, "13-13", true}}));
  std::vector<std::string> common = {"strategy=" + strategy};
  if (uneven) common.emplace_back("uneven=1");
  auto guarded = common;
  guarded.insert(guarded.end(), {"action=" + action, "spike=" + std::to_string(spike), uneven ? "on=1" : "on=0"});
  common.push_back("out=" + out);
  const Run run("guarded", 2, guarded);
  const Run plain("guarded", 2, common);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(run.text(rank, "weights") == plain.text(rank, "weights"));
    CHECK(run.number(rank, "skipped") == 1);
    CHECK(run.number(rank, "rollbacks") == (action == "rollback" ? 1 : 0));
  }
  CHECK_THAT(run.outcome.out + run.outcome.err,
             Catch::Contains("SpikeGuard: 1 spike in 18 steps: steps " + std::to_string(spike)));
}

TEST_CASE("ranks find the learning rate that one process finds, and begin with it") {
  const Run one("finds_rate", 1);
  const std::vector<double> losses = one.common_numbers("losses");
  REQUIRE(losses.size() > 15);
  CHECK(losses.size() < 40);
  for (const char* strategy : {"ddp", "ddp_sharded"}) {
    const Run two("finds_rate", 2, {std::string("strategy=") + strategy});
    two.check_everywhere("suggestion", one.number(0, "suggestion"));
    two.check_everywhere("weight", one.number(0, "weight"));
    for (const auto& facts : two.by_rank)
      levin::test::check_numbers(levin::test::numbers_in(facts.at("losses").back()), losses);
  }
}
