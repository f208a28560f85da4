// What Lightning's own tests look at, on two ranks.
#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

using levin::test::GoodRun;

TEST_CASE("ranks validate after the same batches across epochs of streams that differ in length") {
  const GoodRun run("lightning", "interval", 2);
  for (const auto& facts : run.by_rank) CHECK(facts.at("validated").back() == "3,6,9,12,");
}

TEST_CASE("whatever turns optimizers take, ranks reach the weights of one process") {
  const int seed = GENERATE(0, 20);
  const std::vector<std::string> settings{"seed=" + std::to_string(seed), "seeds=20"};
  const GoodRun one("lightning", "turns", 1, settings), two("lightning", "turns", 2, settings);
  const std::vector<double> expected = levin::test::numbers_in(one.text(0, "weights"));
  REQUIRE(expected.size() == 60);
  for (const std::size_t rank : {0, 1}) {
    INFO("of seeds from " << seed << ", three weights each, on rank " << rank);
    levin::test::check_numbers(levin::test::numbers_in(two.text(rank, "weights")), expected, Approx::custom().epsilon(1e-9));
  }
}
