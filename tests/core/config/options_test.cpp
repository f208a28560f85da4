#include "levin/core/config/options.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
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

Value map_of(const char* key, Value value) {
  Value map(Value::Map{});
  map[key] = std::move(value);
  return map;
}

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

Value options_at(const std::vector<std::pair<const char*, Value>>& entries) {
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

void refused(const Value& map, const std::string& error) { CHECK_THROWS_WITH(read_options<Limits>(map), error); }
void refused(const Limits& limits, const std::string& error) {
  CHECK_THROWS_AS(checked("Limits", limits), ConfigError);
  CHECK_THROWS_WITH(checked("Limits", limits), error);
}

}  // namespace

TEST_CASE("keys that are missing keep the default of the member") {
  CHECK(read_options<Sample>(Value(Value::Map{})) == Sample{});
  CHECK(read_options<Sample>(Value()) == Sample{});
}

TEST_CASE("every type of option is read") {
  CHECK(read("flag", false).flag == false);
  CHECK(read("small", -3).small == -3);
  CHECK(read("large", std::int64_t{1} << 40).large == std::int64_t{1} << 40);
  CHECK(read("rate", 0.5).rate == 0.5);
  CHECK(read("rate", 1).rate == 1.0);
  CHECK(read("mode", "max").mode == "max");
  CHECK(read("mode", 32).mode == "32");
  CHECK(read("limit", 2).limit == 2.0);
  CHECK(read("limit", Value()).limit == std::nullopt);
  CHECK(read("sizes", Value(Value::List{4, 5})).sizes == std::vector<std::int64_t>{4, 5});
  CHECK(read("weights", map_of("a", 2)).weights == std::map<std::string, double>{{"a", 2.0}});
  CHECK(read("anything", "as it is").anything == Value("as it is"));
}

TEST_CASE("null is as if the option were not given, unless it is a value of its type") {
  const Value::List names = {"flag",   "small", "large", "rate",    "mode",    "name",
                             "folder", "limit", "sizes", "weights", "anything"};
  Value all(Value::Map{});
  for (const Value& name : names) all[name.as_string()] = Value();
  CHECK(read_options<Sample>(all) == Sample{});
  CHECK(read("limit", Value()).limit == std::nullopt);
  // A default that is not null: null is what its type says.
  CHECK_FALSE(read_options<Preset>(map_of("limit", Value())).limit.has_value());
  CHECK(read_options<Preset>(map_of("name", Value())).name == "preset");
  CHECK(read_options<Outer>(map_of("inner", Value())).inner == Sample{});
  CHECK(read_options<Outer>(map_of("inner", map_of("small", Value()))).inner.small == 7);
  // A rule stands at an option that is given.
  refused(options_at({{"least", Value()}, {"most", 0}}), "run.yaml:3:8: least is above most");
}

TEST_CASE("null for a required option is as bad as none") {
  CHECK_THROWS_WITH(read_options<WithFile>(map_of("table", marked(Value(), 4, 9))),
                    "run.yaml:4:9: missing key 'table' (path: The table to read)");
}

TEST_CASE("the schema lets null pass where the reader does") {
  const Value schema = detail::schema_of_options(describe_options<Sample>()).at("properties");
  for (const char* name : {"flag", "small", "rate", "mode", "name", "folder", "limit", "sizes", "weights"}) {
    CAPTURE(name);
    CHECK(detail::admits_null(schema.at(name)));
  }
  CHECK(schema.at("small").at("type") == Value(Value::List{"integer", "null"}));
  CHECK(schema.at("mode").at("enum") == Value(Value::List{"min", "max", "32", 32, Value()}));
  const Value of_file = detail::schema_of_options(describe_options<WithFile>()).at("properties");
  CHECK_FALSE(detail::admits_null(of_file.at("table")));
  CHECK(detail::admits_null(of_file.at("extra")));
}

TEST_CASE("a leading tilde in a path is the home folder") {
  const std::string home = std::getenv("HOME");
  CHECK(read("folder", "~/data").folder == fs::path(home) / "data");
  CHECK(read("folder", "~").folder == fs::path(home));
  CHECK(read("folder", "data/~x").folder == "data/~x");
}

TEST_CASE("a number is the text that it was written as, where a text is wanted") {
  const auto written = [](Value number, const char* text) { return std::move(number).with_written(text); };
  for (const char* text : {"0123", "+7", "1_000", "0x10"}) CHECK(read("name", written(16, text)).name == text);
  for (const char* text : {"1.10", "1e3", ".5"}) CHECK(read("folder", written(1.1, text)).folder == text);
  CHECK(read("name", 16).name == "16");
  CHECK(read("name", 1.5).name == "1.5");
  CHECK(read("small", written(16, "0x10")).small == 16);
  CHECK(written(16, "0x10") == Value(16));
}

TEST_CASE("an unknown key is an error at the key, with the name that was meant") {
  Value wrong = marked(1, 3, 10);
  wrong.set_key_position(3, 3);
  CHECK_THROWS_WITH(read("smal", wrong), "run.yaml:3:3: unknown key 'smal'; did you mean 'small'?");
  CHECK_THROWS_WITH(read("qqqqqq", 1), Catch::Contains("the keys are 'flag', 'small'"));
}

TEST_CASE("a value of the wrong type is an error at the value, naming the option and both types") {
  CHECK_THROWS_WITH(read("small", marked("abc", 3, 9)), "run.yaml:3:9: small: expected int, got string 'abc'");
  CHECK_THROWS_WITH(read("small", 5.0), "small: expected int, got float 5.0; write 5");
  CHECK_THROWS_WITH(read("flag", 1), "flag: expected bool, got int 1");
  CHECK_THROWS_WITH(read("name", true), "name: expected string, got bool true; put it in quotes");
  CHECK_THROWS_WITH(read("sizes", 3), "sizes: expected list of int, got int 3; write it in brackets: [a, b]");
  CHECK_THROWS_WITH(read("sizes", Value(Value::List{1, marked("x", 5, 8)})),
                    "run.yaml:5:8: sizes: expected int, got string 'x'");
  CHECK_THROWS_WITH(read_options<Sample>(marked(5, 2, 1)), "run.yaml:2:1: expected map, got int 5");
  CHECK_THROWS_WITH(read("small", std::int64_t{1} << 40), "small: 1099511627776 does not fit into 32 bits");
}

TEST_CASE("a number out of range is an error that states the range") {
  CHECK_THROWS_WITH(read("rate", -0.5), "rate: must be at least 0 and at most 1, got float -0.5");
  CHECK_THROWS_WITH(read("rate", std::nan("")), Catch::Contains("must be at least 0"));
  CHECK_THROWS_WITH(read("large", -2), "large: must be at least -1, got int -2");
  CHECK_THROWS_WITH(read("limit", -1), Catch::Contains("limit: must be at least 0"));
  CHECK_THROWS_WITH(read("sizes", Value(Value::List{1, -1})), Catch::Contains("sizes: must be at least 0"));
  CHECK(read("rate", 0).rate == 0.0);
  CHECK(read("rate", 1.0).rate == 1.0);
}

TEST_CASE("a string that is no choice is an error that lists the choices") {
  CHECK_THROWS_WITH(read("mode", "mxa"), "mode: must be one of 'min', 'max', '32', got string 'mxa'; did you mean 'max'?");
  CHECK_THROWS_WITH(read("mode", 16), Catch::Contains("must be one of 'min', 'max', '32', got int 16"));
}

TEST_CASE("an input file is found beside the YAML file or as written, and becomes absolute") {
  const fs::path folder = fs::temp_directory_path() / ("levin_options_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "table.csv") << "1,2\n";
  Value written("table.csv");
  written.set_mark({(folder / "run.yaml").string(), 2, 8});
  CHECK(read_options<WithFile>(map_of("table", written)).table == folder / "table.csv");
  CHECK(read_options<WithFile>(map_of("table", (folder / "table.csv").string())).table == folder / "table.csv");

  Value missing("tabel.csv");
  missing.set_mark({(folder / "run.yaml").string(), 2, 8});
  CHECK_THROWS_WITH(
      read_options<WithFile>(map_of("table", missing)),
      Catch::Contains("run.yaml:2:8: table: there is no such file") && Catch::Contains((folder / "tabel.csv").string()));
  const std::string here = fs::current_path() / "tabel.csv";
  CHECK_THROWS_WITH(read_options<WithFile>(map_of("table", missing)),
                    Catch::EndsWith("looked for '" + (folder / "tabel.csv").string() + "' and '" + here + "'; did you mean '" +
                                    (folder / "table.csv").string() + "'?"));
  CHECK_THROWS_WITH(read_options<WithFile>(map_of("table", "")), "table: the name of the file is empty");
  CHECK_THROWS_AS(read_options<WithFile>(map_of("table", 1.5)), ConfigError);
  fs::remove_all(folder);
}

TEST_CASE("a required option that is left out is an error that says what it is") {
  const char* message = "missing key 'table' (path: The table to read)";
  CHECK_THROWS_WITH(read_options<WithFile>(Value(Value::Map{})), message);
  CHECK_THROWS_WITH(read_options<WithFile>(Value()), message);
}

TEST_CASE("all errors of a map are reported together, also those of maps within it") {
  Value inner(Value::Map{});
  inner["small"] = marked("abc", 4, 10);
  inner["flagg"] = marked(1, 5, 10);
  inner["sizes"] = Value(Value::List{marked("x", 6, 10), 1, marked("y", 6, 13)});
  Value outer(Value::Map{});
  outer["inner"] = inner;
  outer["count"] = marked(-1, 7, 9);
  try {
    read_options<Outer>(outer);
    FAIL("nothing was thrown");
  } catch (const ConfigErrors& errors) {
    REQUIRE(errors.errors().size() == 5);
    CHECK(std::string(errors.what()) ==
          "run.yaml:5:10: inner: unknown key 'flagg'; did you mean 'flag'?\n"
          "run.yaml:4:10: inner: small: expected int, got string 'abc'\n"
          "run.yaml:6:10: inner: sizes: expected int, got string 'x'\n"
          "run.yaml:6:13: inner: sizes: expected int, got string 'y'\n"
          "run.yaml:7:9: count: must be at least 0, got int -1");
    CHECK(errors.exit_code() == 2);
  }
}

TEST_CASE("a struct of options within another is read, written and described") {
  Outer outer;
  outer.inner.small = 3;
  CHECK(read_options<Outer>(write_options(outer)).inner == outer.inner);
  const Value schema = describe_options<Outer>().at(0).schema;
  CHECK(schema.at("additionalProperties") == Value(false));
  CHECK(schema.at("properties").at("rate").at("maximum") == Value(1));
  CHECK(schema.at("properties").at("rate").at("default") == Value(1e-3));
  CHECK(schema.at("properties").at("limit").at("anyOf").as_list().at(0).at("minimum") == Value(0));
  CHECK(schema.at("properties").at("mode").at("enum") == Value(Value::List{"min", "max", "32", 32, Value()}));
  CHECK(detail::schema_of_options(describe_options<WithFile>()).at("required") == Value(Value::List{"table"}));
}

TEST_CASE("options are described for help and schema") {
  const auto infos = describe_options<Sample>();
  REQUIRE(infos.size() == 11);
  CHECK(infos[3].name == "rate");
  CHECK(infos[3].type == "float");
  CHECK(infos[3].default_value == Value(1e-3));
  CHECK(infos[3].minimum == 0.0);
  CHECK(infos[3].maximum == 1.0);
  CHECK(infos[4].choices.size() == 3);
  CHECK(infos[7].type == "float or null");
  CHECK(infos[8].type == "list of int");
  CHECK(infos[8].schema.at("items").at("type").as_string() == "integer");
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
  }));
}

TEST_CASE("a rule between options that is broken is an error at the first of them that is given") {
  refused(options_at({{"most", 4}, {"least", 5}}), "run.yaml:3:8: least is above most");
  refused(options_at({{"most", 0}}), "run.yaml:2:8: least is above most");
  refused(options_at({{"name", "!"}}), "run.yaml:2:8: a name has letters");
  CHECK(read_options<Limits>(options_at({{"least", 9}})).least == 9);
}

TEST_CASE("options that are wrong by themselves are not asked whether they fit together") {
  refused(options_at({{"least", -1}, {"most", -5}}), "run.yaml:2:8: least: must be at least 0, got int -1");
}

TEST_CASE("options set in C++ are checked as those of YAML, with the class's name") {
  CHECK(checked("Limits", Limits{.least = 3}).least == 3);
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
  CHECK(checked("Limits", Limits{.file = "nowhere.csv"}).file == "nowhere.csv");
  CHECK_THROWS_AS(read_options<Limits>(options_at({{"file", "nowhere.csv"}})), ConfigError);
}

TEST_CASE("bounds may be out of range themselves") {
  refused(options_at({{"rate", 0}}), "run.yaml:2:8: rate: must be above 0 and below 1, got int 0");
  refused(options_at({{"rate", 1.0}}), "run.yaml:2:8: rate: must be above 0 and below 1, got float 1.0");
  CHECK(read_options<Limits>(options_at({{"rate", 1e-300}})).rate == 1e-300);
}

TEST_CASE("an enum is read and written by name") {
  CHECK(read_options<Limits>(options_at({{"mode", "max"}, {"interval", "step"}})).mode == MonitorMode::kMax);
  CHECK_FALSE(read_options<Limits>(options_at({{"interval", Value()}})).interval.has_value());
  refused(options_at({{"mode", "mxa"}}),
          "run.yaml:2:8: mode: must be one of 'min', 'max', got string 'mxa'; did you mean 'max'?");
  refused(options_at({{"interval", "batch"}}), "run.yaml:2:8: interval: must be one of 'step', 'epoch', got string 'batch'");
  CHECK(write_options(Limits{.mode = MonitorMode::kMax}).at("mode") == Value("max"));
}

TEST_CASE("a value with two names is read by both and written by the first") {
  using Format = OptionType<PrecisionFormat>;
  CHECK(Format::read("64") == PrecisionFormat::kFloat64);
  CHECK(Format::read(64) == PrecisionFormat::kFloat64);
  CHECK(Format::write(PrecisionFormat::kFloat64) == Value("64-true"));
}

TEST_CASE("the schema has bounds, choices and what may not be empty") {
  const Value properties = detail::schema_of_options(describe_options<Limits>()).at("properties");
  CHECK(properties.at("rate").at("exclusiveMinimum") == Value(0));
  CHECK(properties.at("rate").at("exclusiveMaximum") == Value(1));
  CHECK(properties.at("name").at("minLength") == Value(1));
  CHECK(properties.at("sizes").at("minItems") == Value(1));
  CHECK(properties.at("mode").at("enum") == Value(Value::List{"min", "max", Value()}));
  CHECK(properties.at("interval").at("anyOf").as_list().at(0).at("enum") == Value(Value::List{"step", "epoch"}));
}
