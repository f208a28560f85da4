#include <catch2/catch.hpp>

#include "distributed/rank_run.h"

namespace {

using levin::test::numbers_in;
using levin::test::RankRun;

/// The numbers of all ranks, one after another.
std::vector<double> joined(const RankRun& run, const std::string& name) {
  std::vector<double> all;
  for (std::size_t rank = 0; rank < run.by_rank.size(); ++rank) {
    if (run.text(rank, name) == "none") continue;
    for (const double number : numbers_in(run.text(rank, name))) all.push_back(number);
  }
  return all;
}

}  // namespace

TEST_CASE("BatchNorm over ranks is that of one process over the whole batch, forward, backward and in evaluation") {
  const std::string layer = GENERATE("layer=batch_norm", "layer=sync_batch_norm");
  const std::string dimensions = GENERATE("dimensions=2", "dimensions=4");
  const std::string cumulative = dimensions == "dimensions=2" ? "cumulative=1" : "cumulative=0";
  const std::string rows = GENERATE("rows=4,3", "rows=3,0,5");
  const std::string control = GENERATE("control=auto", "control=gloo");
  const levin::test::GoodRun one("batch_norm", "fit", 1, {layer, dimensions, cumulative, rows});
  const levin::test::GoodRun several("batch_norm", "fit", rows == "rows=4,3" ? 2 : 3,
                                     {layer, dimensions, cumulative, rows, control});
  const auto ranks = static_cast<double>(several.by_rank.size());
  CHECK(one.has(0, "output_3"));
  CHECK(one.has(0, "norm.running_var"));
  for (const auto& [name, texts] : one.by_rank[0]) {
    INFO(layer << ", " << dimensions << ", " << rows << ", " << control << ": " << name);
    std::vector<double> expected = numbers_in(texts.back());
    const auto check = [&](const std::vector<double>& found) {
      levin::test::check_numbers(found, expected, Approx::custom().epsilon(1e-6).margin(1e-6));
    };
    if (name.starts_with("input")) {
      // Each rank's loss is a share of the sum, which reductions turn into the mean.
      for (double& gradient : expected) gradient *= ranks;
    }
    if (name.starts_with("output") || name.starts_with("input")) {
      check(joined(several, name));
      continue;
    }
    for (std::size_t rank = 0; rank < several.by_rank.size(); ++rank) check(numbers_in(several.text(rank, name)));
  }
}

TEST_CASE("a rank that leaves a synchronized layer out ends all with an error that names the layer") {
  const auto [layer, name] = GENERATE(table<std::string, std::string>(
      {{"layer=batch_norm", "the BatchNorm layer 'norm'"}, {"layer=sync_batch_norm", "SyncBatchNorm of 5 features"}}));
  const auto [how, message] =
      GENERATE(table<std::string, std::string>({{"skip=1", ""}, {"detach=1", " in backward"}, {"fewer=1", ""}}));
  const RankRun run("batch_norm", "fit", 2,
                    {layer, "dimensions=2", "rows=4,3", how, how == "fewer=1" ? "unused=0" : "unused=1"});
  CHECK(run.outcome.status != 0);
  CHECK_THAT(run.outcome.err,
             Catch::Contains(how == "fewer=1" ? "this rank has no batch, but others have one" : name + message));
  CHECK(!run.has(0, "weight"));
  CHECK(!run.has(1, "weight"));
}

TEST_CASE("fewer than two values per channel on all ranks together are an error on all") {
  const RankRun run("batch_norm", "fit", 2, {"layer=sync_batch_norm", "dimensions=2", "rows=1,0"});
  CHECK(run.outcome.status != 0);
  CHECK_THAT(run.outcome.err, Catch::Contains("the batches of all ranks together have 1 values per channel"));
}
