#include <catch2/catch.hpp>
#include <set>

#include "distributed/rank_run.h"

namespace {

using Catch::Matchers::Contains;

/// A scenario of module_program.
struct Run : levin::test::GoodRun {
  Run(const std::string& scenario, int ranks, const std::vector<std::string>& settings = {})
      : GoodRun("module", scenario, ranks, settings) {}
};

}  // namespace

TEST_CASE("every rank loads weights, and rank 0 says so") {
  const std::string by = GENERATE("setup", "init_from");
  const Run run("loads_weights", 2, {"by=" + by});
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(run.text(rank, "weights") == "2,0.5");
  const std::string line = "Weights from '" + (run.folder.path() / "weights.safetensors").string() +
                           "': 1 loaded; 1 missing from the file (second); 1 not in the module (last)\n";
  CHECK_THAT(run.outcome.out, Contains(line));
  CHECK(run.outcome.out.find("Weights from", run.outcome.out.find(line) + 1) == std::string::npos);
}

TEST_CASE("each rank's own generator differs and shared ones agree, also in a run that resumes on as many ranks or others") {
  const int ranks = GENERATE(1, 2, 4);
  Run saves("draws", ranks, {"part=saves"});
  const auto whole = saves.by_rank;
  std::set<std::string> own;
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    own.insert(saves.text(rank, "own"));
    CHECK(saves.text(rank, "own") != saves.text(0, "shared"));
  }
  saves.check_alike("shared");
  CHECK(own.size() == static_cast<std::size_t>(ranks));

  const int others = GENERATE(1, 2, 4);
  saves.start("module", "draws", others, {"part=resumes"});
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
  const std::string all = std::to_string(ranks * (ranks + 1) / 2);
  for (const auto& facts : run.by_rank) CHECK(facts.at("samples") == std::vector<std::string>(3, all));
}

TEST_CASE("checkpointed segments train on several ranks, in mixed precision and with accumulation, as without, to the bit") {
  const auto strategy = GENERATE(as<std::string>(), "ddp", "ddp_sharded");
  const std::string precision = GENERATE("", "precision=bf16-mixed");
  std::vector<std::string> settings{"strategy=" + strategy, "segments=0"};
  if (!precision.empty()) settings.push_back(precision);
  const Run whole("checkpointed_segments", 2, settings);
  settings[1] = "segments=3";
  const Run parts("checkpointed_segments", 2, settings);
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(parts.by_rank[rank] == whole.by_rank[rank]);
  CHECK(levin::test::numbers_in(whole.text(0, "parameters")).size() == 4 * (36 + 3 * 6));
}

TEST_CASE("averaged weights are the same on all ranks, and statistics those of all data") {
  for (const bool is_free : {false, true}) {
    INFO("schedule-free: " << is_free);
    const Run run("averages", 2, {is_free ? "free=1" : "free=0"});
    for (const char* name : {"mean", "variance", "weight", "val_loss"}) run.check_alike(name);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(run.text(rank, "evaluated") == run.text(0, "weight"));
      CHECK(run.text(rank, "trained") != run.text(0, "weight"));
      // Of 0, 1, 4, … 121, whichever of the batches of 4 and 2 they were in.
      if (!is_free) CHECK(run.number(rank, "mean") == Approx(506.0 / 12));
    }
  }
}

TEST_CASE("power_sgd approximates in full precision under bf16-mixed where training_step steps by itself") {
  const Run run("approximated", 2);
  run.check_everywhere("steps", 9);
  CHECK(run.common_numbers("weights")[0] != 0);
  // Of 24 bits; bfloat16 has 8, and is wrong by some 4e-3.
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(run.number(rank, "worst") < 1e-5);
}
