// Sessions whose ranks call different functions, and different numbers of times.
#include <catch2/catch.hpp>
#include <csignal>
#include <random>

#include "distributed/rank_report.h"
#include "distributed/rank_run.h"
#include "levin/core/base/text.h"

namespace levin::test {
namespace {

/// Calls of all ranks, as session_program reads them.
using Calls = std::vector<std::string>;

GoodRun run_of(const Calls& calls, const std::vector<std::string>& settings = {}) {
  std::vector<std::string> all = settings;
  all.push_back("calls=" + join(calls, "/"));
  return GoodRun("session", "calls", static_cast<int>(calls.size()), all);
}

/// What one process would have with the same samples: the weight, and the mean of each epoch's samples.
struct Expected {
  double weight = 0;
  std::int64_t steps = 0;
  std::vector<double> means;
};

bool is_step(const std::string& call) { return call.find_first_not_of("0123456789") == std::string::npos; }

/// Iteration i of an epoch has the i-th step of each rank that has one; `accumulate` of them make a step.
Expected one_process(const Calls& calls, std::size_t accumulate) {
  std::vector<std::vector<std::vector<std::vector<double>>>> epochs;  // by epoch, iteration and rank: samples
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    std::size_t epoch = 0, iteration = 0;
    double next = 100.0 * static_cast<double>(rank) + 1;
    for (const std::string& call : parts_of(calls[rank], ',')) {
      if (!is_step(call)) {
        ++epoch;
        iteration = 0;
        continue;
      }
      epochs.resize(std::max(epochs.size(), epoch + 1));
      epochs[epoch].resize(std::max(epochs[epoch].size(), iteration + 1));
      std::vector<double>& samples = epochs[epoch][iteration++].emplace_back();
      for (int count = std::stoi(call); count > 0; --count) samples.push_back(next++);
    }
  }
  Expected expected;
  for (const auto& iterations : epochs) {
    double of_epoch = 0, count_of_epoch = 0;
    for (std::size_t begin = 0; begin < iterations.size(); begin += accumulate) {
      double sum = 0, count = 0;
      for (std::size_t index = begin; index < std::min(begin + accumulate, iterations.size()); ++index) {
        for (const auto& samples : iterations[index]) {
          for (const double sample : samples) sum += sample;
          count += static_cast<double>(samples.size());
        }
      }
      expected.weight -= sum / count;
      ++expected.steps;
      of_epoch += sum;
      count_of_epoch += count;
    }
    expected.means.push_back(of_epoch / count_of_epoch);
  }
  return expected;
}

void check_as_one_process(const Calls& calls, std::size_t accumulate) {
  const GoodRun run = run_of(calls, {"accumulate=" + std::to_string(accumulate)});
  const Expected expected = one_process(calls, accumulate);
  run.check_alike("weight");
  run.check_everywhere("weight", expected.weight);
  run.check_everywhere("global_step", static_cast<double>(expected.steps));
  for (const auto& facts : run.by_rank) {
    std::vector<double> means;
    for (const std::string& mean : facts.at("mean")) means.push_back(std::stod(mean));
    check_numbers(means, expected.means);
  }
}

TEST_CASE("ranks that step differently often, with any sizes of batches, train as one process on all samples") {
  const std::size_t accumulate = GENERATE(1, 2, 3);
  CAPTURE(accumulate);
  check_as_one_process({"2,3,end_epoch,1,end_epoch,end"}, accumulate);
  check_as_one_process({"2,2,2,end_epoch,end", "2,2,2,end_epoch,end"}, accumulate);
  check_as_one_process({"4,1,3,end_epoch,2,2,end_epoch,end", "1,end_epoch,5,end_epoch,end"}, accumulate);
  check_as_one_process({"1,end_epoch,end", "3,3,3,3,end_epoch,end", "2,2,end_epoch,end"}, accumulate);
}

TEST_CASE("drawn numbers of steps and sizes of batches train as one process") {
  std::mt19937 random(20261129);
  const auto draw = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  for (int run = 0; run < 6; ++run) {
    const int ranks = 1 + draw(3), epochs = draw(3);
    Calls calls(static_cast<std::size_t>(ranks));
    for (std::string& own : calls) {
      for (int epoch = 0; epoch < epochs; ++epoch) {
        for (int step = draw(5); step > 0; --step) own += std::to_string(draw(4)) + ",";
        own += "end_epoch,";
      }
      own += "end";
    }
    CAPTURE(calls);
    check_as_one_process(calls, static_cast<std::size_t>(draw(3)));
  }
}

TEST_CASE("a rank that has ended its session takes part until all have") {
  const GoodRun run = run_of({"1,end", "1,1,end_epoch,1,end"});
  run.check_everywhere("global_step", 3);
  run.check_everywhere("weight", -(1 + 101) / 2.0 - 102 - 103);
  const GoodRun begun = run_of({"begin_epoch,1,end", "1,end_epoch,begin_epoch,1,end"});
  begun.check_everywhere("global_step", 2);
  begun.check_everywhere("epoch", 2);
}

TEST_CASE("uneven: drop, and manual optimization, end an epoch with the first rank, and training with the first end()") {
  const std::string setting = GENERATE("uneven=drop", "manual=1");
  const GoodRun epochs = run_of({"1,1,end_epoch,1,end_epoch,end", "1,end_epoch,1,end_epoch,end"}, {setting});
  epochs.check_everywhere("global_step", 2);
  CHECK(epochs.by_rank[0].at("stops") == std::vector<std::string>{"0", "0", "1"});
  const GoodRun run = run_of({"1,end", "1,1,end"}, {setting});
  run.check_everywhere("global_step", 1);
  CHECK(run.by_rank[1].at("stops") == std::vector<std::string>{"0", "1"});
}

TEST_CASE("limits and stops end training of all ranks in the same step") {
  const GoodRun steps = run_of({"1,1,end", "1,1,end"}, {"max_steps=2"});
  for (const auto& facts : steps.by_rank) CHECK(facts.at("stops") == std::vector<std::string>{"0", "1"});
  const GoodRun stop = run_of({"1,stop,1,end", "1,1,end"});
  for (const auto& facts : stop.by_rank) CHECK(facts.at("stops") == std::vector<std::string>{"0", "1"});
  const GoodRun limit = run_of({"1,1,1,1,end", "1,1,1,1,end"}, {"limit=2"});
  limit.check_everywhere("epoch", 2);
}

TEST_CASE("a metric that one rank alone logs is the epoch's value on all") {
  const GoodRun run = run_of({"1,end_epoch,end", "1,end_epoch,end", "1,end_epoch,end"}, {"lone=2"});
  run.check_everywhere("lone", 5);
}

TEST_CASE("ranks validate, save and resume together") {
  const GoodRun run = run_of({"1,validate,save,1,resume,1,end", "1,validate,save,1,resume,1,end"});
  run.check_everywhere("val", (10 + 11 + 20 + 21) / 4.0);
  // The step after save() is undone by the resume.
  run.check_everywhere("global_step", 2);
  run.check_everywhere("weight", -(1 + 101) / 2.0 - (3 + 103) / 2.0);
}

TEST_CASE("calls that do not go together are an error of all ranks that names them") {
  const auto [calls, names] = GENERATE(table<Calls, std::string>({
      {{"1,validate,end", "1,1,end"}, "rank 1 called step(), rank 0 called validate()"},
      {{"1,1,end", "1,save,end", "1,1,end"}, "ranks 0, 2 called step(), rank 1 called save()"},
      {{"1,end", "1,validate,end"}, "rank 0 called end(), rank 1 called validate()"},
  }));
  const RankRun run("session", "calls", static_cast<int>(calls.size()), {"calls=" + join(calls, "/")});
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == 1);
  CHECK_THAT(run.outcome.text(), Catch::Contains(names));
}

TEST_CASE("a report of a stall says that a rank is in code outside of levin") {
  const GoodRun run = run_of({"1,1,end", "1,ponder,1,end"}, {"stall=1"});
  CHECK_THAT(run.outcome.text(), Catch::Contains("a call of the session of train (epoch 0, step 1)"));
  CHECK_THAT(run.outcome.text(), Catch::Contains("code outside of levin (train, epoch 0, step 1)"));
  run.check_everywhere("global_step", 2);
}

TEST_CASE("a rank that leaves between two calls ends all ranks") {
  const auto [manner, status, says] = GENERATE(table<std::string, int, std::string>(
      {{"throw", 1, "the simulator failed"}, {"exit", 3, "rank 1"}, {"kill", 128 + SIGKILL, "rank 1"}}));
  const RankRun run("session", "calls", 3, {"calls=1,1,1,end/1," + manner + ",1,end/1,1,1,end"});
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == status);
  CHECK_THAT(run.outcome.text(), Catch::Contains(says));
}

}  // namespace
}  // namespace levin::test
