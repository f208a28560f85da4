#include "levin/core/config/value.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "levin/core/config/masked_value.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/value_json.h"

using namespace levin;

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

TEST_CASE("a duration is written as it is read, and a long text that is none takes no stack") {
  CHECK(OptionType<Duration>::write(std::chrono::hours(49) + std::chrono::seconds(123)) == Value("02:01:02:03"));
  CHECK(OptionType<Duration>::write(std::chrono::milliseconds(500)) == Value("00:00:00:00.5"));
  CHECK(rc::check([] {
    const Duration duration = std::chrono::milliseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000));
    RC_ASSERT(std::abs((OptionType<Duration>::read(OptionType<Duration>::write(duration)) - duration).count()) < 1e-6);
  }));
  CHECK_THROWS_WITH(OptionType<Duration>::read(std::string(1'000'000, ' ') + "x"), Catch::Contains("which is not a duration"));
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
