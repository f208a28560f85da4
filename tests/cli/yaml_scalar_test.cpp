#include "levin/cli/yaml_scalar.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using levin::Value;
using levin::cli::resolve_plain_scalar;

TEST_CASE("null and bool are YAML's words only") {
  for (const char* text : {"", "~", "null", "Null", "NULL"}) CHECK(resolve_plain_scalar(text) == Value());
  for (const char* text : {"true", "True", "TRUE"}) CHECK(resolve_plain_scalar(text) == Value(true));
  for (const char* text : {"false", "False", "FALSE"}) CHECK(resolve_plain_scalar(text) == Value(false));
  for (const char* text : {"yes", "no", "on", "off", "tRue", "nil", "none", "None"})
    CHECK(resolve_plain_scalar(text) == Value(text));
}

TEST_CASE("ints are decimal, octal or hexadecimal, and may be grouped") {
  CHECK(resolve_plain_scalar("0") == Value(0));
  CHECK(resolve_plain_scalar("-12") == Value(-12));
  CHECK(resolve_plain_scalar("+12") == Value(12));
  CHECK(resolve_plain_scalar("007") == Value(7));
  CHECK(resolve_plain_scalar("0o17") == Value(15));
  CHECK(resolve_plain_scalar("0xFf") == Value(255));
  CHECK(resolve_plain_scalar("50_000") == Value(50'000));
  CHECK(resolve_plain_scalar("9223372036854775807") == Value(std::numeric_limits<std::int64_t>::max()));
  CHECK(resolve_plain_scalar("-9223372036854775808") == Value(std::numeric_limits<std::int64_t>::min()));
}

TEST_CASE("floats have a point, an exponent, or are infinite or not a number") {
  CHECK(resolve_plain_scalar("1.5") == Value(1.5));
  CHECK(resolve_plain_scalar("1.") == Value(1.0));
  CHECK(resolve_plain_scalar("-.5") == Value(-0.5));
  CHECK(resolve_plain_scalar("1e-3") == Value(1e-3));
  CHECK(resolve_plain_scalar("1E3") == Value(1000.0));
  CHECK(resolve_plain_scalar("+3e-4") == Value(3e-4));
  CHECK(resolve_plain_scalar("1_000.5") == Value(1000.5));
  CHECK(resolve_plain_scalar("1e-999") == Value(0.0));
  CHECK(resolve_plain_scalar(".inf") == Value(std::numeric_limits<double>::infinity()));
  CHECK(resolve_plain_scalar("-.Inf") == Value(-std::numeric_limits<double>::infinity()));
  CHECK(std::isnan(resolve_plain_scalar(".nan").as_double()));
}

TEST_CASE("what only resembles a number is a string") {
  for (const char* text : {"1e", "e5", "1.2.3", "0:30", "00:12:00:00", "2026-01-01", "1_",  "_1",   "1__0",    "0x", "0o8",
                           "-",  "+",  ".",     "1 2",  "1f",          "inf",        "nan", "-0x1", "32-true", "0,3"}) {
    INFO(text);
    CHECK(resolve_plain_scalar(text) == Value(text));
  }
  CHECK(resolve_plain_scalar(std::string(100'000, '1') + "x").is_string());
}

TEST_CASE("a number that fits into no 64 bits is an error, not another number") {
  CHECK_THROWS_WITH(resolve_plain_scalar("9223372036854775808"), Catch::Contains("does not fit into 64 bits"));
  CHECK_THROWS_AS(resolve_plain_scalar("0xfffffffffffffffff"), levin::ConfigError);
  CHECK_THROWS_AS(resolve_plain_scalar("1e999"), levin::ConfigError);
}
