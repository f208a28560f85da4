#include "levin/core/console/told_errors.h"

#include <catch2/catch.hpp>

TEST_CASE("an error is known as told by its text") {
  CHECK_FALSE(levin::error_was_told("the sample is damaged"));
  levin::mark_error_told("the sample is damaged");
  levin::mark_error_told("");
  CHECK(levin::error_was_told("the sample is damaged"));
  CHECK_FALSE(levin::error_was_told("the sample is damaged too"));
}
