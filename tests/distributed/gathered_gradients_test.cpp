// Module::all_gather() with gradients, on several ranks and on one.
#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

using levin::test::numbers_in;
using levin::test::RankRun;

namespace {

using Settings = std::vector<std::string>;

void check_numbers(const RankRun& run, const std::string& name, const std::vector<double>& expected, double epsilon = 1e-6) {
  REQUIRE(run.outcome.ok());
  for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
    INFO(name << " on rank " << rank << ": " << run.text(rank, name));
    const std::vector<double> found = numbers_in(run.text(rank, name));
    REQUIRE(found.size() == expected.size());
    for (std::size_t index = 0; index < found.size(); ++index) CHECK(found[index] == Approx(expected[index]).epsilon(epsilon));
  }
}

/// The gradient of these ranks' losses for a weight whose tensor is that of `of`; see gathered_gradients_program.
double told_by(const std::vector<int>& ranks, const std::vector<int>& of = {0, 1}) {
  double sum = 0;
  for (const int teller : ranks) {
    for (const int rank : of) sum += (1 + 2 * teller + 3 * rank) * (rank + 1);
  }
  return sum;
}

}  // namespace

TEST_CASE("ranks that gather with gradients train as one rank with the whole batch") {
  const auto [ranks, settings] = GENERATE(table<int, Settings>({
      {2, {}},
      {4, {}},
      {2, {"accumulate=2"}},
      {2, {"by_hand=1"}},
      {2, {"strategy=ddp", "argument=find_unused_parameters"}},
      {2, {"strategy=ddp", "argument=static_graph"}},
      {2, {"strategy=ddp", "argument=gradient_as_bucket_view"}},
      {2, {"strategy=ddp", "argument=process_group_backend", "value=gloo"}},
      {2, {"strategy=ddp", "argument=control_group", "value=gloo"}},
      {2, {"strategy=ddp_sharded"}},
      {2, {"strategy=MeanGradients"}},
  }));
  const auto with_batch = [](Settings all, int batch) {
    all.push_back("batch=" + std::to_string(batch));
    return all;
  };
  Settings alone;
  for (const std::string& setting : settings) {
    if (setting.starts_with("accumulate") || setting.starts_with("by_hand")) alone.push_back(setting);
  }
  const RankRun one("gathered_gradients", "trains", 1, with_batch(alone, 8));
  REQUIRE(one.outcome.ok());
  const std::vector<double> expected = numbers_in(one.text(0, "weights"));
  CHECK(expected.at(0) != 0.3);
  CHECK(expected.at(1) == 1);  // a weight that no rank uses has no gradient, and so does not decay
  const RankRun several("gathered_gradients", "trains", ranks, with_batch(settings, 8 / ranks));
  check_numbers(several, "weights", expected, 1e-9);
}

TEST_CASE("a rank's gradient is the sum of what all ranks' losses say of its tensor, whoever uses what was gathered") {
  struct Row {
    const char* how;
    double first, second, own;
  };
  const Row row = GENERATE(Row{"both", told_by({0, 1}) / 2, 10 * told_by({0, 1}) / 2, 0}, Row{"plain", 0, 0, 1.5},
                           Row{"no_grad", told_by({0, 1}) / 2, 10 * told_by({0, 1}) / 2, 0},
                           Row{"detached", told_by({0, 1}, {0}) / 2, 10 * told_by({0, 1}) / 2, 0},
                           Row{"left_out", told_by({0}) / 2, 10 * told_by({0}) / 2, 1},
                           // A rank without a loss does not count.
                           Row{"no_loss", told_by({0}), 10 * told_by({0}), 0},
                           Row{"one_of_two", told_by({0}) / 2, 10 * told_by({0, 1}) / 2, 0},
                           Row{"other_of_two", told_by({0}) / 2, 10 * told_by({1}) / 2, 0},
                           Row{"two_passes", told_by({0}) / 2, 10 * told_by({0, 1}) / 2, 1});
  const RankRun run("gathered_gradients", "uses", 2, {std::string("how=") + row.how});
  check_numbers(run, "gradients", {row.first, row.second, row.own});
}

TEST_CASE("a backward pass of the user's own brings gradients to each rank, and leaves them there") {
  const RankRun run("gathered_gradients", "uses", 2, {"how=users_own"});
  REQUIRE(run.outcome.ok());
  for (const int rank : {0, 1}) {
    const std::vector<double> found = numbers_in(run.text(static_cast<std::size_t>(rank), "gradients"));
    CHECK(found == std::vector<double>{told_by({0, 1}, {rank}), 10 * told_by({0, 1}, {rank}), 0});
  }
}

TEST_CASE("one rank's gather has a gradient, and a first dimension of one") {
  const RankRun run("gathered_gradients", "uses", 1, {"how=both"});
  check_numbers(run, "gradients", {1, 10, 0});
}

TEST_CASE("a rank that gathers while another reduces gradients is told of when the time is up, and none waits longer") {
  const RankRun run("gathered_gradients", "uses", 2, {"how=not_everywhere", "timeout=3"});
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == 1);
  CHECK(run.outcome.err.find("all_gather with gradients at gathered_gradients_program.cpp:") != std::string::npos);
}

TEST_CASE("ranks that gather differently end with an error that says where, and none waits") {
  const auto [how, texts] = GENERATE(table<std::string, Settings>({
      {"elsewhere", {"ranks met in different calls", "all_gather with gradients at gathered_gradients_program.cpp:"}},
      {"users_own_uneven", {"ranks met in different calls", "a gradient of all_gather", "which gathered tensors a loss uses"}},
      {"second_order", {"leave create_graph out"}},
  }));
  const RankRun run("gathered_gradients", "uses", 2, {"how=" + how});
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == 1);
  for (const std::string& text : texts) {
    INFO(text);
    CHECK(run.outcome.err.find(text) != std::string::npos);
  }
}
