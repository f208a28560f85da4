#include "levin/core/base/text.h"

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

TEST_CASE("a float is read from the whole of a text, and what is out of range goes to 0 or infinity") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(levin::parse_float("-1.5e3") == -1500.0);
  CHECK(levin::parse_float("4.9e-324") == std::numeric_limits<double>::denorm_min());
  CHECK(levin::parse_float("1e-999") == 0.0);
  CHECK(std::signbit(levin::parse_float("-1e-999").value()));
  CHECK(levin::parse_float("0." + std::string(400, '0') + "1") == 0.0);
  CHECK(levin::parse_float("0." + std::string(400, '0') + "1e402") == 10.0);
  CHECK(levin::parse_float("1e999") == infinity);
  CHECK(levin::parse_float("-1e99999999999999999999") == -infinity);
  CHECK(levin::parse_float(std::string(400, '9')) == infinity);
  CHECK(levin::parse_float("-inf") == -infinity);
  CHECK(std::isnan(levin::parse_float("nan").value()));
  for (const char* wrong : {"", "x", "1x", "1 ", " 1", "+1", "--1", "0x10"}) {
    CAPTURE(wrong);
    CHECK_FALSE(levin::parse_float(wrong));
  }
}
