#include "levin/core/base/format.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace levin::test {
namespace {

TEST_CASE("format puts each argument in its place") {
  CHECK(format("nothing") == "nothing");
  CHECK(format("rank {} of host {}", 3, std::string("node-1")) == "rank 3 of host node-1");
  const char* text = "literal";
  CHECK(format("{}{}{}", text, std::string_view("view"), 'c') == "literalviewc");
  CHECK(format("{}/{}", std::filesystem::path("folder/file.csv"), true) == "folder/file.csv/true");
  CHECK(format("{} {}", false, std::string("a\0b", 3)) == std::string("false a\0b", 9));
}

TEST_CASE("format writes whole numbers of every size") {
  CHECK(format("{} {}", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::uint64_t>::max()) ==
        "-9223372036854775808 18446744073709551615");
  CHECK(format("{} {} {}", std::int8_t{-5}, std::uint8_t{200}, short{7}) == "-5 200 7");
  CHECK(format("{:02}:{:>4}:{:x}", 7, 12, 255) == "07:  12:ff");
}

TEST_CASE("format writes a float so that it reads back, unless told how") {
  CHECK(format("{} {} {} {}", 1.0, 0.1, 1e-5, -2.5f) == "1.0 0.1 1e-05 -2.5");
  CHECK(format("{}", std::numeric_limits<double>::infinity()) == ".inf");
  CHECK(format("{:.3f} {:.9g} {:6.1f}|{:.0f}", 0.12345, 1e-5, 2.0, 1.5) == "0.123 1e-05    2.0|2");
}

TEST_CASE("format takes a doubled brace for one that is meant") {
  CHECK(format("{{{}}} }}{{", 1) == "{1} }{");
  CHECK(format("{}", "{}") == "{}");
}

TEST_CASE("format does not read texts as patterns") { CHECK(format("{}: {}", "100 % {x}", "{0}") == "100 % {x}: {0}"); }

TEST_CASE("a pattern that does not fit its arguments does not compile") {
  using detail::pattern_error;
  STATIC_REQUIRE(pattern_error<>("") == "");
  STATIC_REQUIRE(pattern_error<int, std::string>("{} {{}} {}") == "");
  STATIC_REQUIRE(pattern_error<int>("{} {}") == "more {} than arguments");
  STATIC_REQUIRE(pattern_error<int, int>("{}") == "fewer {} than arguments");
  STATIC_REQUIRE(pattern_error<int>("{{}}") == "fewer {} than arguments");
  STATIC_REQUIRE(pattern_error<int>("{") == "a brace alone; one that is meant is written twice");
  STATIC_REQUIRE(pattern_error<int>("{}}") == "a brace alone; one that is meant is written twice");
  STATIC_REQUIRE(pattern_error<int>("{:{}}") == "a brace alone; one that is meant is written twice");
  STATIC_REQUIRE(pattern_error<int>("{0}") == "what stands in {} begins with a colon");
  STATIC_REQUIRE(pattern_error<double, int>("{:.3f} {:02}") == "");
  STATIC_REQUIRE(pattern_error<int>("{:.3f}") == "not for an argument of this type");
  STATIC_REQUIRE(pattern_error<double>("{:d}") == "not for an argument of this type");
  STATIC_REQUIRE(pattern_error<const char*>("{:x}") == "not for an argument of this type");
}

}  // namespace
}  // namespace levin::test
