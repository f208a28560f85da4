#include "levin/core/options/value.h"

#include <catch2/catch.hpp>

using levin::ConfigError;
using levin::Value;

TEST_CASE("a value knows its type and gives its content") {
  CHECK(std::string(Value().type_name()) == "null");
  CHECK(Value(true).as_bool());
  CHECK(Value(3).as_int() == 3);
  CHECK(Value(3).as_double() == 3.0);
  CHECK(Value(0.5).as_double() == 0.5);
  CHECK(Value("text").as_string() == "text");
  CHECK(Value(3) == Value(std::int64_t{3}));
  CHECK_FALSE(Value(3) == Value(3.0));
}

TEST_CASE("content of another type is an error at the value's mark") {
  Value value("abc");
  value.set_mark({"run.yaml", 4, 9});
  CHECK_THROWS_WITH(value.as_int(), "run.yaml:4:9: expected int, got string 'abc'");
  CHECK_THROWS_WITH(value.as_map(), "run.yaml:4:9: expected map, got string 'abc'");
  CHECK_THROWS_AS(Value(1.5).as_int(), ConfigError);
  CHECK_THROWS_AS(Value().as_string(), ConfigError);
}

TEST_CASE("a map keeps the order of its keys, and a null value grows into a map or list") {
  Value value;
  value["b"] = 1;
  value["a"]["deep"] = "x";
  value["list"].push_back(1.5);
  REQUIRE(value.size() == 3);
  CHECK(value.as_map()[0].first == "b");
  CHECK(value.at("a").at("deep").as_string() == "x");
  CHECK(value.at("list").size() == 1);
  CHECK(value.find("missing") == nullptr);
  CHECK(Value(3).find("missing") == nullptr);
  CHECK_THROWS_WITH(value.at("missing"), "missing key 'missing'");
  CHECK_THROWS_AS(value["b"]["under an int"], ConfigError);
}

TEST_CASE("the place of a key is kept beside the place of its value") {
  Value value(5);
  value.set_mark({"run.yaml", 2, 15});
  CHECK(value.key_mark().str() == "run.yaml:2:15");
  value.set_key_position(2, 3);
  CHECK(value.key_mark().str() == "run.yaml:2:3");
  CHECK(value.mark().str() == "run.yaml:2:15");
}

TEST_CASE("a value is described for an error message, long or odd strings made readable") {
  CHECK(describe(Value()) == "null");
  CHECK(describe(Value(true)) == "bool true");
  CHECK(describe(Value(-7)) == "int -7");
  CHECK(describe(Value(1.0)) == "float 1.0");
  CHECK(describe(Value("a\nb\x01")) == "string 'a\\nb\\x01'");
  CHECK(describe(Value(std::string(1000, 'x'))) == "string '" + std::string(60, 'x') + "…'");
  CHECK(describe(Value(Value::List{1, 2})) == "list of 2 elements");
  CHECK(describe(Value(Value::Map{{"k", 1}})) == "map of 1 key");
}
