#include "levin/core/base/error.h"

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

TEST_CASE("what a signal stopped ends a program as the signal would") {
  try {
    throw levin::Interrupted(15, "in epoch 2");
  } catch (const levin::Error& error) {
    CHECK(std::string(error.what()) == "Stopped by signal 15 (Terminated) in epoch 2.");
    CHECK(error.exit_code() == 128 + 15);
  }
}

TEST_CASE("several errors are one, with a line for each") {
  const levin::ConfigErrors errors({levin::ConfigError(levin::Mark{"run.yaml", 3, 7}, "first"), levin::ConfigError("second")});
  CHECK(std::string(errors.what()) == "run.yaml:3:7: first\nsecond");
  CHECK(levin::single_errors(errors).size() == 2);
  CHECK(levin::single_errors(levin::ConfigError("alone")).front().message() == "alone");
}
