#include "levin/core/error.h"

#include <catch2/catch.hpp>

TEST_CASE("a mark is written as file:line:column, as far as it is known") {
  CHECK(levin::Mark{"run.yaml", 3, 7}.str() == "run.yaml:3:7");
  CHECK(levin::Mark{"run.yaml", 3, 0}.str() == "run.yaml:3");
  CHECK(levin::Mark{"run.yaml"}.str() == "run.yaml");
  CHECK(levin::Mark{}.str().empty());
}

TEST_CASE("a configuration error names the place and ends a program with status 2") {
  const levin::ConfigError error(levin::Mark{"run.yaml", 3, 7}, "unknown key 'max_epoch'");
  CHECK(std::string(error.what()) == "run.yaml:3:7: unknown key 'max_epoch'");
  CHECK(error.exit_code() == 2);
}
