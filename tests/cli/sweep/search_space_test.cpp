#include "levin/cli/sweep/search_space.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/text.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

using levin::cli::Assignment;
using levin::cli::SearchSpace;
using levin::test::TemporaryFolder;

TEST_CASE("a grid is all combinations, the last key changing fastest; commas in brackets and quotes part nothing") {
  SearchSpace space;
  space.add_grid("a.b=[1,2],{x: 3}");
  space.add_grid("c='p,q',r");
  CHECK(space.trials(0, 0) == std::vector<Assignment>{{{"a.b", "[1,2]"}, {"c", "'p,q'"}},
                                                      {{"a.b", "[1,2]"}, {"c", "r"}},
                                                      {{"a.b", "{x: 3}"}, {"c", "'p,q'"}},
                                                      {{"a.b", "{x: 3}"}, {"c", "r"}}});
}

TEST_CASE("draws lie where they are to, at each order of magnitude alike for log, and follow from the seed") {
  SearchSpace space;
  space.add_distribution("lr=log:1e-5..1e-1");
  space.add_distribution("dropout=uniform:0.25..0.5");
  space.add_distribution("width=int:-1..1");
  space.add_distribution("kind=choice:a,b");
  constexpr int kSamples = 4000;
  const std::vector<Assignment> trials = space.trials(kSamples, 3);
  REQUIRE(trials.size() == kSamples);
  int small = 0, low = 0;
  std::set<std::string> widths, kinds;
  for (const Assignment& trial : trials) {
    const double lr = *levin::parse_float(trial[0].second), dropout = *levin::parse_float(trial[1].second);
    REQUIRE((lr >= 1e-5 && lr <= 1e-1));
    REQUIRE((dropout >= 0.25 && dropout <= 0.5));
    small += lr < 1e-3;
    low += dropout < 0.375;
    widths.insert(trial[2].second);
    kinds.insert(trial[3].second);
  }
  CHECK(std::abs(small - kSamples / 2) < 200);  // six standard deviations
  CHECK(std::abs(low - kSamples / 2) < 200);
  CHECK(widths == std::set<std::string>{"-1", "0", "1"});
  CHECK(kinds == std::set<std::string>{"a", "b"});
  const std::vector<Assignment> first = space.trials(2, 3);
  CHECK(first == std::vector<Assignment>(trials.begin(), trials.begin() + 2));
  CHECK(space.trials(2, 4) != first);
  CHECK(space.trials(levin::cli::kMostTrials, 3).size() == 100'000);
}

TEST_CASE("a file says the same as the command line, lists among the values") {
  const TemporaryFolder folder;
  levin::write_file(folder / "space.yaml",
                    "sweep:\n  a: {grid: [1, [2, 3]]}\n  b: {log: [0.5, 0.5]}\n  c: {int: [7, 7]}\n  d: {choice: [null]}\n"
                    "  e: {uniform: [1, 1]}\n");
  SearchSpace space;
  space.add_file(folder / "space.yaml");
  const Assignment drawn = {{"b", "0.5"}, {"c", "7"}, {"d", "null"}, {"e", "1.0"}};
  Assignment one = drawn, other = drawn;
  one.emplace_back("a", "1");
  other.emplace_back("a", "[2,3]");
  CHECK(space.trials(1, 0) == std::vector<Assignment>{one, other});
}
