#include <catch2/catch.hpp>

#include "levin/core/options/option_type.h"
#include "levin/core/options/options.h"

using levin::ConfigError;
using levin::Interval;
using levin::MonitorMode;
using levin::Value;

namespace {

struct Limits {
  std::int64_t least = 1;
  std::int64_t most = 9;
  double rate = 0.5;
  std::string name = "levin";
  std::vector<std::int64_t> sizes = {1};
  MonitorMode mode = MonitorMode::kMin;
  std::optional<Interval> interval = std::nullopt;
  std::optional<std::filesystem::path> file = std::nullopt;

  static void declare(levin::OptionList<Limits>& options) {
    options.add("least", &Limits::least, "Lower limit").min(0);
    options.add("most", &Limits::most, "Upper limit");
    options.add("rate", &Limits::rate, "A rate").above(0).below(1);
    options.add("name", &Limits::name, "A name").not_empty();
    options.add("sizes", &Limits::sizes, "Sizes").not_empty();
    options.add("mode", &Limits::mode, "A choice");
    options.add("interval", &Limits::interval, "A choice, or none");
    options.add("file", &Limits::file, "A file").input_file();
    options.rule({"least", "most"},
                 [](const Limits& limits) { return limits.least > limits.most ? "least is above most" : ""; });
    options.rule({"name"}, [](const Limits& limits) -> std::string {
      if (limits.name == "!") throw ConfigError("a name has letters");
      return "";
    });
  }
};

Value map_of(const std::vector<std::pair<const char*, Value>>& entries) {
  Value map(Value::Map{});
  map.set_mark({"run.yaml", 1, 1});
  int line = 1;
  for (const auto& [key, value] : entries) {
    Value marked = value;
    marked.set_mark({"run.yaml", ++line, 8});
    map[key] = marked;
  }
  return map;
}

void refused(const Value& map, const std::string& error) { CHECK_THROWS_WITH(levin::read_options<Limits>(map), error); }
void refused(const Limits& limits, const std::string& error) {
  CHECK_THROWS_AS(levin::checked("Limits", limits), ConfigError);
  CHECK_THROWS_WITH(levin::checked("Limits", limits), error);
}

}  // namespace

TEST_CASE("a rule between options that is broken is an error at the first of them that is given") {
  refused(map_of({{"most", 4}, {"least", 5}}), "run.yaml:3:8: least is above most");
  refused(map_of({{"most", 0}}), "run.yaml:2:8: least is above most");
  refused(map_of({{"name", "!"}}), "run.yaml:2:8: a name has letters");
  CHECK(levin::read_options<Limits>(map_of({{"least", 9}})).least == 9);
}

TEST_CASE("options that are wrong by themselves are not asked whether they fit together") {
  refused(map_of({{"least", -1}, {"most", -5}}), "run.yaml:2:8: least: must be at least 0, got int -1");
}

TEST_CASE("options set in C++ are checked as those of YAML, with the class's name") {
  CHECK(levin::checked("Limits", Limits{.least = 3}).least == 3);
  refused(Limits{.least = -1}, "Limits: least: must be at least 0, got int -1");
  refused(Limits{.least = 10}, "Limits: least is above most");
  refused(Limits{.name = "!"}, "Limits: a name has letters");
  refused(Limits{.name = ""}, "Limits: name: is an empty string");
  refused(Limits{.sizes = {}}, "Limits: sizes: is an empty list");
  refused(Limits{.mode = static_cast<MonitorMode>(7)}, "Limits: mode: must be one of 'min', 'max', got string ''");
  refused(Limits{.least = -1, .rate = 1.0},
          "Limits: least: must be at least 0, got int -1\nLimits: rate: must be above 0 and below 1, got float 1.0");
}

TEST_CASE("an input file that is set in C++ may come into being later") {
  CHECK(levin::checked("Limits", Limits{.file = "nowhere.csv"}).file == "nowhere.csv");
  CHECK_THROWS_AS(levin::read_options<Limits>(map_of({{"file", "nowhere.csv"}})), ConfigError);
}

TEST_CASE("bounds may be out of range themselves") {
  refused(map_of({{"rate", 0}}), "run.yaml:2:8: rate: must be above 0 and below 1, got int 0");
  refused(map_of({{"rate", 1.0}}), "run.yaml:2:8: rate: must be above 0 and below 1, got float 1.0");
  CHECK(levin::read_options<Limits>(map_of({{"rate", 1e-300}})).rate == 1e-300);
}

TEST_CASE("an enum is read and written by name") {
  CHECK(levin::read_options<Limits>(map_of({{"mode", "max"}, {"interval", "step"}})).mode == MonitorMode::kMax);
  CHECK_FALSE(levin::read_options<Limits>(map_of({{"interval", Value()}})).interval.has_value());
  refused(map_of({{"mode", "mxa"}}), "run.yaml:2:8: mode: must be one of 'min', 'max', got string 'mxa'; did you mean 'max'?");
  refused(map_of({{"interval", "batch"}}), "run.yaml:2:8: interval: must be one of 'step', 'epoch', got string 'batch'");
  CHECK(levin::write_options(Limits{.mode = MonitorMode::kMax}).at("mode") == Value("max"));
}

TEST_CASE("a value with two names is read by both and written by the first") {
  using Format = levin::OptionType<levin::PrecisionFormat>;
  CHECK(Format::read("64") == levin::PrecisionFormat::kFloat64);
  CHECK(Format::read(64) == levin::PrecisionFormat::kFloat64);
  CHECK(Format::write(levin::PrecisionFormat::kFloat64) == Value("64-true"));
}

TEST_CASE("the schema has bounds, choices and what may not be empty") {
  const Value properties = levin::detail::schema_of_options(levin::describe_options<Limits>()).at("properties");
  CHECK(properties.at("rate").at("exclusiveMinimum") == Value(0));
  CHECK(properties.at("rate").at("exclusiveMaximum") == Value(1));
  CHECK(properties.at("name").at("minLength") == Value(1));
  CHECK(properties.at("sizes").at("minItems") == Value(1));
  CHECK(properties.at("mode").at("enum") == Value(Value::List{"min", "max"}));
  CHECK(properties.at("interval").at("anyOf").as_list().at(0).at("enum") == Value(Value::List{"step", "epoch"}));
}
