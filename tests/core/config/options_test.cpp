#include "levin/core/config/options.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "levin/core/base/error.h"
#include "levin/core/config/option_check.h"

using namespace levin;

namespace fs = std::filesystem;

namespace {

struct Sample {
  bool flag = true;
  int small = 7;
  std::int64_t large = 1;
  double rate = 1e-3;
  std::string mode = "min";
  std::string name = "levin";
  fs::path folder = "here";
  std::optional<double> limit;
  std::vector<std::int64_t> sizes = {1, 2};
  std::map<std::string, double> weights;
  Value anything;
  bool operator==(const Sample&) const = default;

  static void declare(OptionList<Sample>& options) {
    options.add("flag", &Sample::flag, "A switch");
    options.add("small", &Sample::small, "A 32-bit number");
    options.add("large", &Sample::large, "A 64-bit number").min(-1);
    options.add("rate", &Sample::rate, "A rate").min(0).max(1);
    options.add("mode", &Sample::mode, "A choice").choices({"min", "max", "32"});
    options.add("name", &Sample::name, "A text");
    options.add("folder", &Sample::folder, "A folder");
    options.add("limit", &Sample::limit, "A limit").min(0);
    options.add("sizes", &Sample::sizes, "Sizes").min(0);
    options.add("weights", &Sample::weights, "Weights by name");
    options.add("anything", &Sample::anything, "Anything");
  }
};

struct WithFile {
  fs::path table;
  std::optional<fs::path> extra;
  static void declare(OptionList<WithFile>& options) {
    options.add("table", &WithFile::table, "The table to read").input_file().required();
    options.add("extra", &WithFile::extra, "Another one").input_file();
  }
};

struct Outer {
  Sample inner;
  int count = 0;
  static void declare(OptionList<Outer>& options) {
    options.add("inner", &Outer::inner, "A map within");
    options.add("count", &Outer::count, "A count").min(0);
  }
};

struct Preset {
  std::optional<double> limit = 3.0;
  std::string name = "preset";
};

Value map_of(const char* key, Value value) { return Value(Value::Map{{key, std::move(value)}}); }

Sample read(const char* key, Value value) { return read_options<Sample>(map_of(key, std::move(value))); }

Value marked(Value value, int line, int column) {
  value.set_mark({"run.yaml", line, column});
  return value;
}

struct Limits {
  std::int64_t least = 1;
  std::int64_t most = 9;
  double rate = 0.5;
  std::string name = "levin";
  std::vector<std::int64_t> sizes = {1};
  MonitorMode mode = MonitorMode::kMin;
  std::optional<Interval> interval = std::nullopt;
  std::optional<std::filesystem::path> file = std::nullopt;

  static void declare(OptionList<Limits>& options) {
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

void refused(const Limits& limits, const std::string& error) {
  CHECK_THROWS_AS(checked("Limits", limits), ConfigError);
  CHECK_THROWS_WITH(checked("Limits", limits), error);
}

}  // namespace

TEST_CASE("a number is read as a float or a text, if it fits, and any value where any is taken") {
  CHECK(read("rate", 1).rate == 1.0);
  CHECK_THROWS_WITH(read("small", std::int64_t{1} << 40), "small: 1099511627776 does not fit into 32 bits");
  CHECK(read("mode", 32).mode == "32");
  CHECK(read("limit", 2).limit == 2.0);
  CHECK(read("weights", map_of("a", 2)).weights == std::map<std::string, double>{{"a", 2.0}});
  CHECK(read("anything", "as it is").anything == Value("as it is"));
}

TEST_CASE("null is as if the option were not given, unless it is a value of its type") {
  Value all(Value::Map{});
  for (const OptionInfo& option : describe_options<Sample>()) all[option.name] = Value();
  CHECK(all.size() == 11);
  CHECK(read_options<Sample>(all) == Sample{});
  CHECK(read_options<Sample>(Value()) == Sample{});
  // A default that is not null: null is what its type says.
  CHECK_FALSE(read_options<Preset>(map_of("limit", Value())).limit.has_value());
  CHECK(read_options<Preset>(map_of("name", Value())).name == "preset");
  CHECK(read_options<Outer>(map_of("inner", Value())).inner == Sample{});
  CHECK(read_options<Outer>(map_of("inner", map_of("small", Value()))).inner.small == 7);
  // A rule stands at an option that is given.
  CHECK_THROWS_WITH(read_options<Limits>(Value(Value::Map{{"least", Value()}, {"most", marked(0, 3, 8)}})),
                    "run.yaml:3:8: least is above most");
}

TEST_CASE("null for a required option is as bad as none") {
  CHECK_THROWS_WITH(read_options<WithFile>(map_of("table", marked(Value(), 4, 9))),
                    "run.yaml:4:9: missing key 'table' (path: The table to read)");
}

TEST_CASE("options written and read again are equal") {
  CHECK(rc::check([] {
    Sample sample;
    sample.flag = *rc::gen::arbitrary<bool>();
    sample.small = *rc::gen::arbitrary<int>();
    sample.large = *rc::gen::inRange<std::int64_t>(-1, std::numeric_limits<std::int64_t>::max());
    sample.rate = *rc::gen::inRange(0, 1001) / 1000.0;
    sample.mode = *rc::gen::element<std::string>("min", "max", "32");
    sample.name = *rc::gen::arbitrary<std::string>();
    if (*rc::gen::arbitrary<bool>()) sample.limit = *rc::gen::inRange(0, 100) / 7.0;
    sample.sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 99));
    sample.weights = *rc::gen::arbitrary<std::map<std::string, double>>();
    sample.anything = Value(*rc::gen::arbitrary<std::string>());
    RC_ASSERT(read_options<Sample>(write_options(sample)) == sample);
    RC_ASSERT(read_options<Outer>(write_options(Outer{sample})).inner == sample);
  }));
}

TEST_CASE(
    "options set in C++ are checked as those of YAML, with the class's name, but for files, which may come into being later") {
  CHECK(checked("Limits", Limits{.least = 3, .file = "nowhere.csv"}).file == "nowhere.csv");
  refused(Limits{.least = -1}, "Limits: least: must be at least 0, got int -1");
  refused(Limits{.least = 10}, "Limits: least is above most");
  refused(Limits{.name = "!"}, "Limits: a name has letters");
  refused(Limits{.name = ""}, "Limits: name: is an empty string");
  refused(Limits{.sizes = {}}, "Limits: sizes: is an empty list");
  refused(Limits{.mode = static_cast<MonitorMode>(7)}, "Limits: mode: must be one of 'min', 'max', got string ''");
  refused(Limits{.least = -1, .rate = 1.0},
          "Limits: least: must be at least 0, got int -1\nLimits: rate: must be above 0 and below 1, got float 1.0");
}

TEST_CASE("a value with two names is read by both and written by the first") {
  using Format = OptionType<PrecisionFormat>;
  CHECK(Format::read("64") == PrecisionFormat::kFloat64);
  CHECK(Format::read(64) == PrecisionFormat::kFloat64);
  CHECK(Format::write(PrecisionFormat::kFloat64) == Value("64-true"));
}

TEST_CASE(
    "the schema has types, defaults, bounds, choices and what may not be empty, and lets null pass where the reader does") {
  const auto schema_of = [](const std::vector<OptionInfo>& options) { return detail::schema_of_options(options); };
  const Value sample = describe_options<Outer>().at(0).schema.at("properties");
  CHECK(describe_options<Outer>().at(0).schema.at("additionalProperties") == Value(false));
  CHECK(sample.at("rate").at("default") == Value(1e-3));
  CHECK(sample.at("rate").at("maximum") == Value(1));
  CHECK(sample.at("limit").at("anyOf").as_list().at(0).at("minimum") == Value(0));
  CHECK(sample.at("small").at("type") == Value(Value::List{"integer", "null"}));
  CHECK(sample.at("sizes").at("items").at("type") == Value("integer"));
  CHECK(sample.at("mode").at("enum") == Value(Value::List{"min", "max", "32", 32, Value()}));
  for (const char* name : {"flag", "small", "rate", "mode", "name", "folder", "limit", "sizes", "weights"}) {
    CAPTURE(name);
    CHECK(detail::admits_null(sample.at(name)));
  }
  const Value of_file = schema_of(describe_options<WithFile>());
  CHECK(of_file.at("required") == Value(Value::List{"table"}));
  CHECK_FALSE(detail::admits_null(of_file.at("properties").at("table")));
  CHECK(detail::admits_null(of_file.at("properties").at("extra")));
  const Value limits = schema_of(describe_options<Limits>()).at("properties");
  CHECK(limits.at("rate").at("exclusiveMinimum") == Value(0));
  CHECK(limits.at("rate").at("exclusiveMaximum") == Value(1));
  CHECK(limits.at("name").at("minLength") == Value(1));
  CHECK(limits.at("sizes").at("minItems") == Value(1));
  CHECK(limits.at("interval").at("anyOf").as_list().at(0).at("enum") == Value(Value::List{"step", "epoch"}));
}
