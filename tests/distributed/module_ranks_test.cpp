#include <catch2/catch.hpp>
#include <set>

#include "distributed/rank_run.h"

namespace {

using Catch::Matchers::Contains;

/// A scenario of module_program.
struct Run : levin::test::RankRun {
  Run(const std::string& scenario, int ranks, const std::vector<std::string>& settings = {})
      : RankRun("module", scenario, ranks, settings) {}
};

}  // namespace

TEST_CASE("a part that is frozen in one epoch and taken back in the next trains alike on any number of ranks") {
  const Run one("frozen_part", 1);
  REQUIRE(one.outcome.ok());
  const std::vector<std::string> expected = one.by_rank[0].at("weights");
  REQUIRE(expected.size() == 3);
  CHECK(one.text(0, "modes") == "trains,frozen,trains,");
  const auto first = [&](std::size_t epoch) { return levin::test::numbers_in(expected[epoch]).at(0); };
  const auto second = [&](std::size_t epoch) { return levin::test::numbers_in(expected[epoch]).at(1); };
  CHECK(first(0) != Approx(0.5));
  CHECK(first(1) == first(0));
  CHECK(first(2) != Approx(first(1)));
  CHECK(second(1) != Approx(second(0)));
  const int ranks = GENERATE(2, 4);
  const Run several("frozen_part", ranks);
  REQUIRE(several.outcome.ok());
  for (std::size_t rank = 0; rank < several.by_rank.size(); ++rank) {
    CHECK(several.text(rank, "modes") == one.text(0, "modes"));
    CHECK(several.by_rank[rank].at("weights") == several.by_rank[0].at("weights"));
  }
  CHECK(levin::test::numbers_in(several.by_rank[0].at("weights")[1])[0] ==
        levin::test::numbers_in(several.by_rank[0].at("weights")[0])[0]);
}

TEST_CASE("every rank loads weights, and rank 0 says so") {
  const std::string by = GENERATE("setup", "init_from");
  const Run run("loads_weights", 2, {"by=" + by});
  REQUIRE(run.outcome.ok());
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(run.text(rank, "weights") == "2,0.5");
  const std::string line = "Weights from '" + (run.folder.path() / "weights.safetensors").string() +
                           "': 1 loaded; 1 missing from the file (second.weight); 1 not in the module (last.weight)\n";
  CHECK_THAT(run.outcome.out, Contains(line));
  CHECK(run.outcome.out.find("Weights from", run.outcome.out.find(line) + 1) == std::string::npos);
}

TEST_CASE("generators of a rank's own differ and shared ones agree, also in a run that resumes on as many ranks or others") {
  const int ranks = GENERATE(1, 2, 4);
  Run saves("draws", ranks, {"part=saves"});
  REQUIRE(saves.outcome.ok());
  const auto whole = saves.by_rank;
  std::set<std::string> own;
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    own.insert(saves.text(rank, "own"));
    CHECK(saves.text(rank, "shared") == saves.text(0, "shared"));
    CHECK(saves.text(rank, "own") != saves.text(0, "shared"));
  }
  CHECK(own.size() == static_cast<std::size_t>(ranks));

  const int others = GENERATE(1, 2, 4);
  saves.start("module", "draws", others, {"part=resumes"});
  REQUIRE(saves.outcome.ok());
  for (std::size_t rank = 0; rank < saves.by_rank.size(); ++rank) {
    CHECK(saves.text(rank, "shared") == whole[0].at("shared").back());
    // A rank that the saved run did not have begins with its own numbers.
    if (rank < whole.size()) CHECK(saves.text(rank, "own") == whole[rank].at("own").back());
    own.insert(saves.text(rank, "own"));
  }
  CHECK(own.size() == static_cast<std::size_t>(std::max(ranks, others)));
}

TEST_CASE("samples of all ranks are known under manual optimization too") {
  const int ranks = GENERATE(1, 2, 4);
  const Run run("manual_samples", ranks);
  REQUIRE(run.outcome.ok());
  const std::string all = std::to_string(ranks * (ranks + 1) / 2);
  for (const auto& facts : run.by_rank) CHECK(facts.at("samples") == std::vector<std::string>(3, all));
}

TEST_CASE("checkpointed segments train on several ranks, in mixed precision and with accumulation, as without, to the bit") {
  const auto strategy = GENERATE(as<std::string>(), "ddp", "ddp_sharded");
  const bool mixed = GENERATE(false, true);
  std::vector<std::string> settings{"strategy=" + strategy};
  if (mixed) settings.push_back("precision=bf16-mixed");
  const auto with_segments = [&](int segments) {
    std::vector<std::string> all = settings;
    all.push_back("segments=" + std::to_string(segments));
    return Run("checkpointed_segments", 2, all);
  };
  const Run whole = with_segments(0);
  const Run parts = with_segments(3);
  REQUIRE(whole.outcome.ok());
  REQUIRE(parts.outcome.ok());
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(parts.by_rank[rank] == whole.by_rank[rank]);
  CHECK(whole.by_rank[0].size() == 4 * 4 + 4 * 3);
}

TEST_CASE("averaged weights are the same on all ranks, and statistics those of all data") {
  for (const bool is_free : {false, true}) {
    INFO("schedule-free: " << is_free);
    const Run run("averages", 2, {is_free ? "free=1" : "free=0"});
    REQUIRE(run.outcome.ok());
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (const char* name : {"mean", "variance", "weight", "val_loss"}) CHECK(run.text(rank, name) == run.text(0, name));
      CHECK(run.text(rank, "evaluated") == run.text(0, "weight"));
      CHECK(run.text(rank, "trained") != run.text(0, "weight"));
      // Of 0, 1, 4, … 121, whichever of the batches of 4 and 2 they were in.
      if (!is_free) CHECK(run.number(rank, "mean") == Approx(506.0 / 12));
    }
  }
}

TEST_CASE("power_sgd approximates in full under bf16-mixed where training_step steps by itself, and resumes exactly") {
  Run run("approximated", 2);
  REQUIRE(run.outcome.ok());
  const auto whole = run.by_rank;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(run.number(rank, "steps") == 9);
    CHECK(run.text(rank, "weights") == run.text(0, "weights"));
    // Of 24 bits; bfloat16 has 8, and is wrong by some 4e-3.
    CHECK(run.number(rank, "worst") < 1e-5);
  }
  CHECK(levin::test::numbers_in(run.text(0, "weights"))[0] != 0);
  run.start("module", "approximated", 2, {"resumes=1"});
  REQUIRE(run.outcome.ok());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(run.number(rank, "steps") == 9);
    CHECK(run.text(rank, "weights") == whole[rank].at("weights").back());
  }
}
