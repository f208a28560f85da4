// Module::all_gather() with gradients, on several ranks and on one.
#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

using levin::test::check_numbers;
using levin::test::GoodRun;
using levin::test::numbers_in;
using levin::test::RankRun;

namespace {

using Settings = std::vector<std::string>;

/// The gradients of the three weights of one step of two ranks.
void check_gradients(const std::string& how, int ranks, const std::vector<double>& expected) {
  const GoodRun run("gathered_gradients", "uses", ranks, {"how=" + how});
  for (const auto& facts : run.by_rank)
    check_numbers(numbers_in(facts.at("gradients").back()), expected, Approx::custom().epsilon(1e-6));
}

/// The gradient of these ranks' losses for a weight whose tensor is that of `of`; see gathered_gradients_program.
double gradient_of(const std::vector<int>& ranks, const std::vector<int>& of = {0, 1}) {
  double sum = 0;
  for (const int user : ranks) {
    for (const int rank : of) sum += (1 + 2 * user + 3 * rank) * (rank + 1);
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
  const GoodRun one("gathered_gradients", "trains", 1, with_batch(alone, 8));
  const std::vector<double> expected = numbers_in(one.text(0, "weights"));
  CHECK(expected.at(0) != 0.3);
  CHECK(expected.at(1) == 1);  // a weight that no rank uses has no gradient, and so does not decay
  const GoodRun several("gathered_gradients", "trains", ranks, with_batch(settings, 8 / ranks));
  for (const auto& facts : several.by_rank)
    check_numbers(numbers_in(facts.at("weights").back()), expected, Approx::custom().epsilon(1e-9));
}

TEST_CASE("a rank's gradient is the sum of what all ranks' losses say of its tensor, whichever ranks use what was gathered") {
  struct Row {
    const char* how;
    double first, second, own;
  };
  const Row row = GENERATE(Row{"both", gradient_of({0, 1}) / 2, 10 * gradient_of({0, 1}) / 2, 0}, Row{"plain", 0, 0, 1.5},
                           Row{"no_grad", gradient_of({0, 1}) / 2, 10 * gradient_of({0, 1}) / 2, 0},
                           Row{"detached", gradient_of({0, 1}, {0}) / 2, 10 * gradient_of({0, 1}) / 2, 0},
                           Row{"left_out", gradient_of({0}) / 2, 10 * gradient_of({0}) / 2, 1},
                           // A rank without a loss does not count.
                           Row{"no_loss", gradient_of({0}), 10 * gradient_of({0}), 0},
                           Row{"one_of_two", gradient_of({0}) / 2, 10 * gradient_of({0, 1}) / 2, 0},
                           Row{"other_of_two", gradient_of({0}) / 2, 10 * gradient_of({1}) / 2, 0},
                           Row{"two_passes", gradient_of({0}) / 2, 10 * gradient_of({0, 1}) / 2, 1});
  check_gradients(row.how, 2, {row.first, row.second, row.own});
}

TEST_CASE("a backward pass that the module calls itself brings gradients to each rank, and leaves them there") {
  const GoodRun run("gathered_gradients", "uses", 2, {"how=users_own"});
  for (const int rank : {0, 1}) {
    const std::vector<double> found = numbers_in(run.text(static_cast<std::size_t>(rank), "gradients"));
    CHECK(found == std::vector<double>{gradient_of({0, 1}, {rank}), 10 * gradient_of({0, 1}, {rank}), 0});
  }
}

TEST_CASE("one rank's gather has a gradient, and a first dimension of one") { check_gradients("both", 1, {1, 10, 0}); }

TEST_CASE("ranks that gather differently end with an error that says where, and none waits longer than the timeout") {
  const auto [settings, texts] = GENERATE(table<Settings, Settings>({
      // Another rank reduces gradients.
      {{"how=not_everywhere", "timeout=3"}, {"all_gather with gradients at gathered_gradients_program.cpp:"}},
      {{"how=elsewhere"}, {"ranks met in different calls", "all_gather with gradients at gathered_gradients_program.cpp:"}},
      {{"how=users_own_uneven"},
       {"ranks met in different calls", "a gradient of all_gather", "which gathered tensors a loss uses"}},
      {{"how=second_order"}, {"leave create_graph out"}},
  }));
  const RankRun run("gathered_gradients", "uses", 2, settings);
  CHECK_FALSE(run.outcome.timed_out);
  CHECK(run.outcome.status == 1);
  for (const std::string& text : texts) CHECK_THAT(run.outcome.err, Catch::Contains(text));
}
