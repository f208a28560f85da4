#include "levin/cli/step_times.h"

#include <catch2/catch.hpp>
#include <sstream>

using namespace levin::cli;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

StepTimes step(double forward, double backward, double optimizer = 0.001, double rest = 0.001) {
  return {.forward = forward, .backward = backward, .optimizer = optimizer, .rest = rest};
}

std::vector<std::string> cells(const std::string& line, char separator) {
  std::vector<std::string> found;
  std::istringstream input(line);
  for (std::string cell; std::getline(input, cell, separator);) found.push_back(cell);
  return found;
}

}  // namespace

TEST_CASE("typical times are those of the faster half of the steps, and add up") {
  const StepTimes times = typical({step(1, 1), step(0.01, 0.02), step(0.03, 0.02), step(5, 0.5)});
  CHECK(times.forward == Approx(0.02));
  CHECK(times.backward == Approx(0.02));
  CHECK(times.step() == Approx(0.042));
  CHECK(typical({}).step() == 0);
  CHECK(typical({step(0.1, 0.2)}).step() == Approx(0.302));
}

TEST_CASE("what a reduction adds to backward is exposed, the rest of it overlapped") {
  const RankTimes rank{.alone = step(0.010, 0.020), .together = step(0.011, 0.027), .reduction = 0.012};
  CHECK(rank.backward() == Approx(0.020));
  CHECK(rank.exposed() == Approx(0.007));
  CHECK(rank.overlapped() == Approx(0.005));
  // Measured alone it took longer: noise.
  const RankTimes noisy{.alone = step(0.010, 0.030), .together = step(0.011, 0.027), .reduction = 0};
  CHECK(noisy.exposed() == 0);
  CHECK(noisy.overlapped() == 0);
  // Waiting for another rank is exposed, too.
  const RankTimes waits{.alone = step(0.010, 0.020), .together = step(0.010, 0.090), .reduction = 0.012};
  CHECK(waits.exposed() == Approx(0.070));
  CHECK(waits.overlapped() == 0);
}

TEST_CASE("the table of ranks has a row for each, whose parts add up to the step") {
  const std::vector<RankTimes> ranks = {{step(0.010, 0.020), step(0.011, 0.027), 0.012},
                                        {step(0.020, 0.040), step(0.021, 0.047), 0.012}};
  const std::vector<std::string> lines = cells(rank_csv(ranks), '\n');
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] ==
        "rank,forward_seconds,backward_seconds,overlapped_seconds,exposed_seconds,optimizer_seconds,rest_seconds,step_seconds");
  for (std::size_t line = 1; line < lines.size(); ++line) {
    const std::vector<std::string> row = cells(lines[line], ',');
    REQUIRE(row.size() == 8);
    const auto at = [&](std::size_t column) { return std::stod(row[column]); };
    CHECK(at(0) == static_cast<double>(line - 1));
    CHECK(at(1) + at(2) + at(4) + at(5) + at(6) == Approx(at(7)));
  }
  const std::vector<std::string> table = cells(rank_table(ranks), '\n');
  REQUIRE(table.size() == 4);
  CHECK_THAT(table[0],
             Contains("rank | forward ms | backward ms | overlapped ms | exposed ms | optimizer ms | rest ms | step ms"));
  CHECK_THAT(table[2], Contains("11.00") && Contains("40.00"));
}

TEST_CASE("the slowest rank is the one that works longest by itself") {
  const auto rank = [](double work) {
    return RankTimes{.alone = step(work, 0, 0, 0), .together = step(1, 1, 0, 0), .reduction = 0};
  };
  CHECK(slowest_rank({rank(0.010), rank(0.013), rank(0.011)}) ==
        "Rank 1 is the slowest: it works 13.00 ms a step by itself, 30% more than rank 0, and the others wait for it.");
  CHECK_THAT(slowest_rank({rank(0.0100), rank(0.0102)}), StartsWith("No rank is slower than the others"));
}

TEST_CASE("another size of buckets is proposed where it gains more than noise") {
  CHECK(bucket_proposal({{1, 0.030}, {5, 0.020}, {25, 0.025}}, 25) ==
        "Set strategy: {class_path: ddp, init_args: {bucket_cap_mb: 5}}: a step takes 20% less than with 25.");
  CHECK_THAT(bucket_proposal({{1, 0.030}, {25, 0.0201}, {50, 0.020}}, 25), StartsWith("Keep bucket_cap_mb: 25"));
  CHECK_THAT(bucket_proposal({{25, 0.02}}, 25), StartsWith("All gradients fit into one bucket"));
  CHECK(cells(bucket_table({{1, 0.030}, {2.5, 0.020}}), '\n').size() == 4);
}

TEST_CASE("sizes of buckets that make a difference are tried") {
  using Sizes = std::vector<double>;
  constexpr std::int64_t kMb = 1 << 20;
  CHECK(bucket_sizes(kMb / 2, 25) == Sizes{25});
  CHECK(bucket_sizes(20 * kMb, 25) == Sizes{1, 5, 10, 25});
  CHECK(bucket_sizes(40 * kMb + 1, 25) == Sizes{1, 5, 10, 25, 41});
  CHECK(bucket_sizes(20 * kMb, 2.5) == Sizes{1, 2.5, 5, 10, 20});
}
