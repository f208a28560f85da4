#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "distributed/one_process.h"
#include "support/program.h"
#include "support/temporary_folder.h"

using levin::test::Outcome;
using levin::test::TemporaryFolder;

namespace {

using Facts = std::map<std::string, std::string>;

/// A scenario of trainer_program on so many ranks, and what each rank reported.
struct Run {
  Run(const std::string& scenario, int ranks, const std::vector<std::string>& parameters = {}) {
    levin::test::Command command;
    command.arguments = {LEVIN_BINARY_DIR "/bin/trainer_program", scenario, std::to_string(ranks), folder.path().string()};
    command.arguments.insert(command.arguments.end(), parameters.begin(), parameters.end());
    command.limit = std::chrono::seconds(60);
    outcome = levin::test::run(command);
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

TEST_CASE("ranks with different numbers of batches train to the weights and means of one process") {
  const auto batches = GENERATE(std::vector<int>{5, 3}, std::vector<int>{0, 4}, std::vector<int>{10, 9, 1, 0});
  const auto known = GENERATE("known", "unknown");
  const int accumulate = GENERATE(1, 3);
  std::vector<std::string> parameters;
  for (const int count : batches) parameters.push_back(std::to_string(count));
  parameters.insert(parameters.end(), {known, std::to_string(accumulate)});
  const Run run("uneven", static_cast<int>(batches.size()), parameters);
  INFO(known << ", accumulate " << accumulate << ", " << batches.size() << " ranks\n" << run.outcome.text());
  REQUIRE(run.outcome.ok());
  const levin::test::OneProcess expected(batches, accumulate);
  run.check_everywhere("weight", expected.weight);
  run.check_everywhere("global_step", expected.steps);
  run.check_everywhere("metric:input_epoch", expected.mean);
  run.check_everywhere("metric:val_input", expected.mean);
  for (std::size_t rank = 0; rank < batches.size(); ++rank) CHECK(run.number(rank, "steps") == batches[rank]);
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

TEST_CASE("stop() on one rank ends all ranks at the same step") {
  const auto [ranks, who, when] = GENERATE(table<int, int, int>({{2, 0, 0}, {2, 1, 3}, {4, 3, 7}}));
  const Run run("stops", ranks, {std::to_string(who), std::to_string(when)});
  INFO(run.outcome.text());
  REQUIRE(run.outcome.ok());
  run.check_everywhere("global_step", when + 1);
  const std::string why = who == 0 ? "enough" : "rank " + std::to_string(who) + " asked for it";
  CHECK(run.outcome.out.find("Training stopped: " + why) != std::string::npos);
}

TEST_CASE("a metric that only rank 0 computes stops all ranks in the same epoch") {
  const int ranks = GENERATE(2, 4);
  const auto who = GENERATE("guarded", "all");
  const auto sync_dist = GENERATE("true", "false");
  // Logged on all ranks it must be rank 0's value, so rank_zero_only is needed there unless it stays local.
  const Run run("monitors_rank_zero_metric", ranks, {who, sync_dist, "true"});
  INFO(who << ", sync_dist " << sync_dist << "\n" << run.outcome.text());
  REQUIRE(run.outcome.ok());
  run.check_everywhere("epoch", 5);
  run.check_everywhere("metric:joined", 2);
}

TEST_CASE("a metric that only rank 0 logs needs no rank_zero_only") {
  const auto sync_dist = GENERATE("true", "false");
  const Run run("monitors_rank_zero_metric", 2, {"guarded", sync_dist, "false"});
  INFO(run.outcome.text());
  REQUIRE(run.outcome.ok());
  run.check_everywhere("epoch", 5);
  CHECK(run.outcome.err.find("ran on rank 0 and not on rank 1") != std::string::npos);
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

TEST_CASE("one failing rank ends all, with its rank, hook, epoch and step first") {
  const auto [how, status, text] = GENERATE(table<std::string, int, std::string>({{"throw", 1, "the sensor returned garbage"},
                                                                                  {"throw_int", 134, "no std::exception"},
                                                                                  {"abort", 134, "signal 6"},
                                                                                  {"segfault", 139, "signal 11"},
                                                                                  {"exit", 1, "exit status 0"},
                                                                                  {"kill", 137, "signal 9"}}));
  const Run run("fails", 2, {"1", "2", how});
  INFO(how << "\n" << run.outcome.text());
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == status);
  CHECK(run.outcome.err.find("rank 1 failed in training_step (train, epoch 0, step 2)") != std::string::npos);
  CHECK(run.outcome.err.find(text) != std::string::npos);
}

TEST_CASE("a signal to one rank stops all at the same step and ends with 128 + its number") {
  const Run run("fails", 2, {"1", "2", "sigterm"});
  INFO(run.outcome.text());
  CHECK(run.outcome.status == 143);
  CHECK(run.outcome.err.find("after global step 3") != std::string::npos);
}

TEST_CASE("different collectives end all ranks with both call sites") {
  const auto other = GENERATE("barrier", "nothing");
  const Run run("different_collectives", 2, {"1", other});
  INFO(run.outcome.text());
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == 1);
  CHECK(run.outcome.err.find("all_gather at trainer_program.cpp:") != std::string::npos);
  CHECK(run.outcome.err.find(std::string(other) == "barrier" ? "barrier 'odd one' at trainer_program.cpp:"
                                                             : "gradient reduction") != std::string::npos);
}

TEST_CASE("ranks that were told different options say which, before anything runs") {
  const Run run("different_options", 2);
  INFO(run.outcome.text());
  CHECK(run.outcome.status == 2);
  CHECK(run.outcome.err.find("Rank 0 has `max_epochs: 1`, rank 1 has `max_epochs: 3`") != std::string::npos);
}
