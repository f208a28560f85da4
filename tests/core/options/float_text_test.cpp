#include "levin/core/options/float_text.h"

#include <rapidcheck.h>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

TEST_CASE("a float's text is short and never looks like an int") {
  CHECK(levin::float_text(1.0) == "1.0");
  CHECK(levin::float_text(-0.0) == "-0.0");
  CHECK(levin::float_text(0.1) == "0.1");
  CHECK(levin::float_text(1e-5) == "1e-05");
  CHECK(levin::float_text(1e300) == "1e+300");
  CHECK(levin::float_text(std::numeric_limits<double>::infinity()) == ".inf");
  CHECK(levin::float_text(-std::numeric_limits<double>::infinity()) == "-.inf");
  CHECK(levin::float_text(std::nan("")) == ".nan");
}

TEST_CASE("a float's text reads back to the same bits") {
  CHECK(rc::check([](std::uint64_t bits) {
    const double value = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(value));
    const double read = std::strtod(levin::float_text(value).c_str(), nullptr);
    RC_ASSERT(std::bit_cast<std::uint64_t>(read) == bits);
  }));
}
