#include "levin/core/base/wildcards.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "support/temporary_folder.h"

TEST_CASE("a pattern stands for the files that there are, in the order of their names") {
  const levin::test::TemporaryFolder folder;
  for (const char* name : {"b.csv", "a.csv", "c.txt"}) std::ofstream(folder / name) << "";
  using Files = std::vector<std::filesystem::path>;
  CHECK(levin::matching_files(folder / "*.csv") == Files{folder / "a.csv", folder / "b.csv"});
  CHECK(levin::matching_files(folder / "[bc].*") == Files{folder / "b.csv", folder / "c.txt"});
  CHECK(levin::matching_files(folder / "d*").empty());
  CHECK(levin::matching_files(folder / "{b,a}.csv") == Files{folder / "b.csv", folder / "a.csv"});
  CHECK(levin::matching_files(folder / "{d,e}.csv").empty());
  CHECK(levin::matching_files(folder / "{a,d}*.csv") == Files{folder / "a.csv"});
  CHECK_THROWS_WITH(levin::matching_files(folder / "{a,d,e}.csv"),
                    Catch::Matchers::Contains("/d.csv' of '") && Catch::Matchers::Contains("is not there, nor are 1 more"));
  CHECK(levin::has_wildcards("a/?.csv"));
  CHECK_FALSE(levin::has_wildcards("a/b.csv"));
}
