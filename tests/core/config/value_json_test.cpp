#include "levin/core/config/value_json.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace levin;

namespace {

using Catch::Matchers::Contains;

Value round_trip(const Value& value) { return parse_json(to_json(value)); }

}  // namespace

TEST_CASE(
    "a tree of values is written with its types and the order of its keys, and floats that JSON lacks in a form of their own") {
  CHECK(to_json(Value(Value::Map{{"b", 1}, {"a", 1.0}, {"c", Value::List{nullptr, true}}})) ==
        R"({"b":1,"a":1.0,"c":[null,true]})");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(to_json(Value(infinity)) == R"({"$float":"inf"})");
  for (const double number : {0.1, 1e300, 5e-324, -0.0, 1.0 / 3.0, std::numeric_limits<double>::max(), infinity, -infinity}) {
    const Value back = round_trip(Value(number));
    CHECK(back.as_double() == number);
    CHECK(std::signbit(back.as_double()) == std::signbit(number));
  }
  CHECK(std::isnan(round_trip(Value(std::nan(""))).as_double()));
}

TEST_CASE("a map that looks like a form, and text that is not UTF-8, come back as they were") {
  const Value forms(Value::Map{{"$float", "nan"}});
  CHECK(round_trip(forms) == forms);
  const Value nested(Value::Map{{"$hex", forms}, {"$$", 1}, {"$hex:00", 2}});
  CHECK(round_trip(nested) == nested);
  const Value bytes(Value::Map{{"path", "/data/\xff\xfe"}, {"key \xff", 1}});
  CHECK(round_trip(bytes) == bytes);
}

TEST_CASE("text that is not strict JSON is refused with the reason") {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1,}", "nul", "NaN", "Infinity", "'a'", "{a:1}", "1 2", "\"\xff\"", "[1}",
                           "// c\n1", "01", "1e999", R"({"$hex":"0"})", R"({"$hex":"0g"})"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_json(text), IoError);
  }
  using Row = std::pair<const char*, const char*>;
  for (const auto& [text, reason] :
       {Row{"[1, x]", "at byte"}, Row{R"({"a":1,"b":2,"a":3})", "\"a\" occurs twice"}, Row{"9223372036854775808", "64 bits"},
        Row{"-9223372036854775809", "64 bits"}, Row{"123456789012345678901234567890", "64 bits"},
        Row{R"({"$float":"many"})", "many"}, Row{R"({"$other":1})", "$other"}}) {
    CHECK_THROWS_WITH(parse_json(text), Contains(reason));
  }
}

TEST_CASE("the number of values is limited, which each take fifty times the memory of their text") {
  std::string text = "[0";
  while (text.size() < 2 * kMaxJsonValues) text += ",0";
  CHECK_THROWS_WITH(parse_json(text + "]"), Contains("more than 2000000 values"));
  CHECK_THROWS_WITH(parse_json("[1,2,3]", {.list_size = 2}), Contains("more than 2 elements"));
  CHECK_THROWS_WITH(parse_json("[[[1]]]", {.depth = 2}), Contains("deeper than 2"));
  CHECK(parse_json("[[1,2],[3]]", {.depth = 2, .list_size = 2}).size() == 2);
}

TEST_CASE("nesting is limited, in reading and in writing") {
  for (const std::size_t depth : {kMaxJsonDepth, kMaxJsonDepth + 1, std::size_t(1000000)}) {
    const std::string text = std::string(depth, '[') + std::string(depth, ']');
    if (depth == kMaxJsonDepth) {
      CHECK(to_json(parse_json(text)) == text);
    } else {
      CHECK_THROWS_WITH(parse_json(text), Contains("deeper than 200"));
    }
  }
  Value deep;
  for (int i = 0; i < 300; ++i) deep = Value(Value::List{deep});
  CHECK_THROWS_WITH(to_json(deep), Contains("deeper than 200"));
}
