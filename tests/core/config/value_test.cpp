#include "levin/core/config/value.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "levin/core/config/masked_value.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/value_json.h"

using namespace levin;

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

namespace {
Duration duration_of(const std::string& text) { return OptionType<Duration>::read(text); }
}  // namespace

TEST_CASE("durations are days, hours, minutes and seconds") {
  CHECK(duration_of("00:00:00:30") == std::chrono::seconds(30));
  CHECK(duration_of(" 2:01:02:03 ") == std::chrono::hours(49) + std::chrono::seconds(123));
  CHECK(duration_of("00:25:99:00") == std::chrono::minutes(25 * 60 + 99));
  CHECK(duration_of("00:00:00:01.5") == std::chrono::milliseconds(1500));
  for (const char* text : {"", "30", "00:00:30", "1:2:3:4", "00:00:00:30s", "-1:00:00:00", "00:00:00:01."}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(duration_of(text), Catch::Contains("which is not a duration"));
  }
}

TEST_CASE("durations are read as Python writes them, and as maps of their parts") {
  CHECK(duration_of("0:30:00") == std::chrono::minutes(30));
  CHECK(duration_of("23:00:01.25") == std::chrono::hours(23) + std::chrono::milliseconds(1250));
  CHECK(duration_of("1 day, 2:30:00") == std::chrono::minutes(26 * 60 + 30));
  CHECK(duration_of("12 days, 0:00:00") == std::chrono::hours(12 * 24));
  CHECK_THROWS_WITH(duration_of("24:00:00"), Catch::Contains("which is not a duration"));
  const auto of_map = [](Value::Map parts) { return OptionType<Duration>::read(Value(std::move(parts))); };
  CHECK(of_map({{"weeks", 1}, {"days", 2}, {"hours", 3}}) == std::chrono::hours(9 * 24 + 3));
  CHECK(of_map({{"minutes", 1.5}, {"seconds", 2}, {"milliseconds", 500}}) == std::chrono::milliseconds(92'500));
  CHECK(of_map({}) == Duration(0));
  CHECK_THROWS_WITH(of_map({{"hour", 1}}), "unknown key 'hour'; did you mean 'hours'?");
  CHECK_THROWS_WITH(of_map({{"hours", "1"}}), Catch::Contains("expected float, got string '1'"));
  CHECK_THROWS_WITH(of_map({{"hours", -1}}), "a duration is not negative");
}

TEST_CASE("a long text is no duration, and takes no stack") {
  CHECK_THROWS_WITH(duration_of(std::string(1'000'000, ' ') + "x"), Catch::Contains("which is not a duration"));
}

TEST_CASE("a duration is written as it is read") {
  CHECK(OptionType<Duration>::write(std::chrono::hours(12)) == Value("00:12:00:00"));
  CHECK(OptionType<Duration>::write(std::chrono::hours(49) + std::chrono::seconds(123)) == Value("02:01:02:03"));
  CHECK(OptionType<Duration>::write(std::chrono::milliseconds(500)) == Value("00:00:00:00.5"));
  CHECK(OptionType<Duration>::write(std::chrono::seconds(10)) == Value("00:00:00:10"));
  CHECK(rc::check([] {
    const Duration duration = std::chrono::milliseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000));
    RC_ASSERT(std::abs((OptionType<Duration>::read(OptionType<Duration>::write(duration)) - duration).count()) < 1e-6);
  }));
  for (const double seconds : {-1.0, 1e15, std::nan("")}) {
    CAPTURE(seconds);
    CHECK_THROWS_AS(OptionType<Duration>::read(OptionType<Duration>::write(Duration(seconds))), ConfigError);
  }
}

TEST_CASE("secrets in a tree are masked by their names, and refused when they are read again") {
  const Value tree = Value::Map{{"data", Value::Map{{"init_args", Value::Map{{"password", "hunter2"},
                                                                             {"api_key", 1234},
                                                                             {"token", Value()},
                                                                             {"pad_token", "<pad>"},
                                                                             {"passwords", Value::List{"a", "b"}}}}}},
                                {"uri", "https://me:secret@host"},
                                {"notes", Value::List{"WANDB_API_KEY=abc", "none"}},
                                {"credentials", Value::Map{{"user", "me"}, {"attempts", 3}}},
                                {"headers", Value::Map{{"Authorization", "Bearer abc"}, {"Accept", "json"}}}};
  const Value shown = masked(tree);
  CHECK(
      to_json(shown) ==
      R"({"data":{"init_args":{"password":"***","api_key":"***","token":null,"pad_token":"<pad>","passwords":["***","***"]}},)"
      R"("uri":"https://me:***@host","notes":["WANDB_API_KEY=***","none"],"credentials":{"user":"***","attempts":3},)"
      R"("headers":{"Authorization":"***","Accept":"json"}})");
  CHECK(masked(shown) == shown);
  CHECK_NOTHROW(refuse_masked(tree));
  const Value renamed = Value::Map{{"init_from", Value::Map{{"rename", Value::Map{{"token", "class_token"}}}}}};
  CHECK(masked(renamed) == renamed);
  const auto refused = [](Value value) {
    CHECK_THROWS_WITH(refuse_masked(value), Catch::Contains("levin writes no secrets into files"));
  };
  CHECK_THROWS_WITH(refuse_masked(shown), Catch::Contains("'data.init_args.password' is '***'") &&
                                              Catch::Contains("with --data.init_args.password or"));
  for (const char* key : {"uri", "notes", "credentials", "headers"}) refused(Value::Map{{key, shown.at(key)}});
  CHECK_NOTHROW(refuse_masked(Value::Map{{"title", "***"}}));
}
