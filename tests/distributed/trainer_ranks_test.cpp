#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "support/program.h"
#include "support/temporary_folder.h"

using levin::test::Outcome;
using levin::test::TemporaryFolder;

namespace {

using Facts = std::map<std::string, std::string>;

/// A scenario of trainer_program on so many ranks, and what each rank reported.
struct Run {
  Run(const std::string& scenario, int ranks, const std::vector<std::string>& parameters = {}) {
    start(scenario, ranks, parameters);
  }
  void start(const std::string& scenario, int ranks, const std::vector<std::string>& parameters) {
    levin::test::Command command;
    command.arguments = {LEVIN_BINARY_DIR "/bin/trainer_program", scenario, std::to_string(ranks), folder.path().string()};
    command.arguments.insert(command.arguments.end(), parameters.begin(), parameters.end());
    command.limit = std::chrono::seconds(60);
    outcome = levin::test::run(command);
    by_rank.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream file(folder.path() / ("rank_" + std::to_string(rank)));
      Facts facts;
      std::string name, value;
      while (file >> name >> value) facts[name] = value;
      by_rank.push_back(std::move(facts));
    }
  }
  double number(std::size_t rank, const std::string& name) const { return std::stod(by_rank.at(rank).at(name)); }
  /// The fact is the same on all ranks, and this.
  void check_everywhere(const std::string& name, double expected) const {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      INFO(name << " on rank " << rank);
      REQUIRE(by_rank[rank].contains(name));
      CHECK(number(rank, name) == Approx(expected));
    }
  }

  TemporaryFolder folder;
  Outcome outcome;
  std::vector<Facts> by_rank;
};

}  // namespace

TEST_CASE("a run that a signal stopped in an epoch ends, resumed, with the bits of one that was not") {
  const int ranks = GENERATE(2, 4);
  const Run whole("resumes", ranks, {"whole"});
  INFO(whole.outcome.text());
  REQUIRE(whole.outcome.ok());
  Run stopped("resumes", ranks, {"interrupted"});
  INFO(stopped.outcome.text());
  REQUIRE(stopped.outcome.status == 128 + 15);
  stopped.start("resumes", ranks, {"resumed"});
  INFO(stopped.outcome.text());
  REQUIRE(stopped.outcome.ok());
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    INFO("rank " << rank);
    for (const char* name : {"weight", "global_step", "epoch", "random", "metric:input_epoch"}) {
      CHECK(stopped.by_rank.at(rank).at(name) == whole.by_rank.at(rank).at(name));
    }
    if (rank > 0) CHECK(whole.by_rank[rank].at("random") != whole.by_rank[0].at("random"));
  }
}

TEST_CASE("uneven samples train to the same weights and means on 1, 2 and 4 ranks") {
  // 26 samples in global batches of 8: the last batch of 2 leaves two of four ranks without any.
  const Run one("samples", 1, {"26", "8"});
  INFO(one.outcome.text());
  REQUIRE(one.outcome.ok());
  const int ranks = GENERATE(2, 4);
  const Run many("samples", ranks, {"26", "8"});
  INFO(many.outcome.text());
  REQUIRE(many.outcome.ok());
  for (const char* name : {"weight", "global_step", "metric:input_epoch", "metric:val_input"}) {
    many.check_everywhere(name, one.number(0, name));
  }
}

TEST_CASE("a broken pipe does not end a rank, and ends a program that a rank has started") {
  const Run run("starts_programs", 2);
  INFO(run.outcome.text());
  REQUIRE(run.outcome.ok());
  run.check_everywhere("signal_of_the_program", 13);
}

TEST_CASE("stop() on one rank ends all ranks at the same step") {
  const auto [ranks, who, when] = GENERATE(table<int, int, int>({{2, 0, 0}, {2, 1, 3}, {4, 3, 7}}));
  const Run run("stops", ranks, {std::to_string(who), std::to_string(when)});
  INFO(run.outcome.text());
  REQUIRE(run.outcome.ok());
  run.check_everywhere("global_step", when + 1);
  const std::string why = who == 0 ? "enough" : "rank " + std::to_string(who) + " asked for it";
  CHECK(run.outcome.out.find("Training stopped: " + why) != std::string::npos);
}

TEST_CASE("ranks may log different keys, in another order, at other steps") {
  const Run run("different_keys", 3, {"1"});
  INFO(run.outcome.text());
  REQUIRE(run.outcome.ok());
  run.check_everywhere("metric:a", 1);
  run.check_everywhere("metric:b", 1);
  run.check_everywhere("metric:rare_epoch", 4);
  run.check_everywhere("metric:rank_0_own", 0);
  run.check_everywhere("metric:rank_1_own", 10);
  run.check_everywhere("metric:rank_2_own", 20);
  CHECK(run.outcome.err.find("log(\"rare\") in training_step (trainer_program.cpp:") != std::string::npos);
}

TEST_CASE("skip_epoch() on one rank ends the epoch on all of them") {
  const Run run("skips_epoch", 2, {"1", "2"});
  INFO(run.outcome.text());
  REQUIRE(run.outcome.ok());
  run.check_everywhere("global_step", 6);  // the step of batch 2 is made of rank 0's batch alone
  run.check_everywhere("epoch", 2);
  CHECK(run.by_rank[0].count("metric:val_input") == 0);
}
