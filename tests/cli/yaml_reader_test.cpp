#include "levin/cli/config/yaml_reader.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "levin/cli/config/source_text.h"
#include "levin/core/base/error.h"
#include "support/error_of.h"

using namespace levin;
using namespace levin::cli;

namespace {

Value read(const std::string& text) { return read_yaml(SourceText("run.yaml", text)); }

std::string error_of(const std::string& text) {
  return levin::test::error_of<ConfigError>([&] { read(text); });
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// "- - - …" and "a:\n a:\n  a:\n…", one level a step.
std::string nested_blocks(int levels) {
  std::string all;
  for (int i = 0; i < levels; ++i) all += std::string(i, ' ') + "a:\n";
  return all;
}

}  // namespace

TEST_CASE("a document becomes a value, with each scalar's type") {
  const Value value = read(
      "trainer:\n"
      "  max_epochs: 5\n"
      "  lr: 1e-3\n"
      "  name: digits\n"
      "  on: true\n"
      "  none: ~\n"
      "  empty:\n"
      "  list: [1, 'two', \"3\", 4.0]\n"
      "  block:\n"
      "  - a\n"
      "  - b: |\n"
      "      text\n"
      "      more\n");
  const Value& trainer = value.at("trainer");
  CHECK(trainer.at("max_epochs") == Value(5));
  CHECK(trainer.at("lr") == Value(1e-3));
  CHECK(trainer.at("name") == Value("digits"));
  CHECK(trainer.at("on") == Value(true));
  CHECK(trainer.at("none") == Value());
  CHECK(trainer.at("empty") == Value());
  CHECK(trainer.at("list") == Value(Value::List{1, "two", "3", 4.0}));
  CHECK(trainer.at("block").as_list().at(1).at("b") == Value("text\nmore\n"));
  CHECK(trainer.as_map()[0].first == "max_epochs");
}

TEST_CASE("each node knows its line and column, and those of its key") {
  const Value value = read("trainer:\n  max_epochs: 5\n  list: [a,\n    bb]\n");
  CHECK(value.at("trainer").key_mark().str() == "run.yaml:1:1");
  CHECK(value.at("trainer").at("max_epochs").mark().str() == "run.yaml:2:15");
  CHECK(value.at("trainer").at("max_epochs").key_mark().str() == "run.yaml:2:3");
  CHECK(value.at("trainer").at("list").as_list()[1].mark().str() == "run.yaml:4:5");
}

TEST_CASE("a text without content is null") {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n"}) CHECK(read(text) == Value());
}

TEST_CASE("explicit tags are YAML's own") {
  CHECK(read("!!str 5") == Value("5"));
  CHECK(read("!!float 5") == Value(5.0));
  CHECK(read("!!int 5") == Value(5));
  CHECK(read("!!bool true") == Value(true));
  CHECK(read("! 5") == Value("5"));
  CHECK(read("!!binary aGFsbG8=") == Value("hallo"));
  CHECK(read("!!binary \"aGFs\\n bG8=\"") == Value("hallo"));
  CHECK(read("!!binary ''") == Value(""));
  for (const std::string wrong : {"ä", "a", "aGFsbG8", "aGFsbG8=aGFs", "a===", "=", "aG=s", "a-_b"})
    CHECK_THAT(error_of("a: !!binary " + wrong), Catch::Contains("run.yaml:1:4: this is not base64"));
  CHECK_THAT(error_of("!!int five"), Catch::Contains("run.yaml:1:1") && Catch::Contains("expected int"));
  CHECK_THAT(error_of("a: !Mine {}"), Catch::Contains("run.yaml:1:4: unknown tag '!Mine'"));
  CHECK_THAT(error_of("a: !!python/object x"), Catch::Contains("unknown tag"));
}

TEST_CASE("anchors, aliases and merge keys are resolved, explicit keys first") {
  const Value value = read(
      "base: &base {a: 1, b: 2}\n"
      "other: &other {b: 3, c: 4}\n"
      "copy: *base\n"
      "one: {<<: *base, b: 9}\n"
      "several: {<<: [*other, *base], d: 5}\n"
      "text: {'<<': 1}\n");
  CHECK(value.at("copy") == value.at("base"));
  CHECK(value.at("one").at("a") == Value(1));
  CHECK(value.at("one").at("b") == Value(9));
  CHECK(value.at("several").at("b") == Value(3));
  CHECK(value.at("several").size() == 4);
  CHECK(value.at("text").at("<<") == Value(1));
  CHECK(value.at("copy").key_mark().str() == "run.yaml:3:1");
  CHECK_THAT(error_of("a: {<<: 5}"), Catch::Contains("run.yaml:1:9: '<<' takes a map"));
  CHECK_THAT(error_of("a: {<<: [5]}"), Catch::Contains("'<<' takes maps only"));
  CHECK_THAT(error_of("a: &a [*a]"), Catch::Contains("inside the node that it names"));
  CHECK_THAT(error_of("a: *missing"), Catch::Contains("run.yaml:1:4: YAML syntax"));
}

TEST_CASE("a key written twice is an error at the second one") {
  CHECK(error_of("a: 1\nb:\n  c: 1\n  c: 2\n") == "run.yaml:4:3: the key 'c' is given twice; it is first in line 3");
  CHECK_THAT(error_of("{a: 1, a: 2}"), Catch::Contains("run.yaml:1:8"));
}

TEST_CASE("keys are plain text") {
  CHECK(read("1: x").at("1") == Value("x"));
  CHECK(read("!!int 1: x").at("1") == Value("x"));
  CHECK(read("!!str 1: x").at("1") == Value("x"));
  CHECK(read("!!binary /w==: x").at("\xff") == Value("x"));
  CHECK_THAT(error_of("!!binary ä: x"), Catch::Contains("run.yaml:1:1: this is not base64"));
  CHECK_THAT(error_of("!mine k: x"), Catch::Contains("run.yaml:1:1: unknown tag '!mine'"));
  CHECK_THAT(error_of("? [a, b]\n: 1"), Catch::Contains("a list cannot be a key"));
  CHECK_THAT(error_of("? {a: b}\n: 1"), Catch::Contains("a map cannot be a key"));
  CHECK_THAT(error_of("~: 1"), Catch::Contains("a key is empty or null"));
  CHECK_THAT(error_of("a: &x k\n*x : 1"), Catch::Contains("an alias cannot be a key"));
}

TEST_CASE("a syntax error has its line and column") {
  for (const char* yaml : {"a:\n\tb: 3\n", "a:\n-\tb: 3\n  c: 4\n", "a: 1\n\tb: 2\n"}) {
    CAPTURE(yaml);
    CHECK_THAT(error_of(yaml),
               Catch::Contains("run.yaml:2:") && Catch::Contains("a tab, where lines are indented with spaces"));
  }
  CHECK_THAT(error_of("a:\n  b: 1\n  \tc: 2\n"), Catch::Contains("run.yaml:3:3: YAML syntax: a tab"));
  CHECK_THAT(error_of("a:\t'open"), Catch::Contains("YAML syntax") && !Catch::Contains("a tab"));
  CHECK_THAT(error_of("a: [1, 2\nb: 3\n"), Catch::Contains("run.yaml:2:") && Catch::Contains("YAML syntax"));
  CHECK_THAT(error_of("a: 'open"), Catch::Contains("YAML syntax"));
  for (const char* text : {"a:\n    b: 1\n  c: 2\n", "a:\n    - 1\n  - 2\n"}) {
    CHECK_THAT(error_of(text),
               Catch::Contains("run.yaml:3:3: YAML syntax: the indentation of this line matches no line above"));
  }
  CHECK_THAT(error_of("a: b: c"), Catch::Contains("run.yaml:1:") && Catch::Contains("YAML syntax"));
  CHECK_THAT(error_of("\ta: 1"), Catch::Contains("run.yaml:1:"));
  CHECK_THAT(error_of("a: 1\n---\nb: 2"), Catch::Contains("more than one YAML document"));
  CHECK_THAT(error_of("a: 99999999999999999999"), Catch::Contains("run.yaml:1:4: the number") && Catch::Contains("quotes"));
}

TEST_CASE("a document 100,000 levels deep is an error with its line and column, however it nests") {
  constexpr int kLevels = 100'000;
  CHECK_THAT(error_of(repeated("[", kLevels) + repeated("]", kLevels)),
             Catch::Contains("run.yaml:1:101: nested deeper than 100 levels"));
  CHECK_THAT(error_of(repeated("{a: ", kLevels) + repeated("}", kLevels)), Catch::Contains("nested deeper"));
  CHECK_THAT(error_of(repeated("[", kLevels)), Catch::Contains("run.yaml:1:1: a list cannot be a key; is its ']' missing?"));
  CHECK_THAT(error_of(repeated("{a: ", kLevels)), Catch::Contains("run.yaml:1:1: a map cannot be a key; is its '}' missing?"));
  CHECK_THAT(error_of(repeated("{", kLevels)), Catch::Contains("run.yaml:1:"));
  CHECK_THAT(error_of(repeated("- ", kLevels)), Catch::Contains("run.yaml:1:201: nested deeper"));
  CHECK_THAT(error_of(repeated("? ", kLevels)), Catch::Contains("run.yaml:1:"));
  // A file of this kind grows with the square of its depth: 5,000 levels are 12 MB.
  CHECK_THAT(error_of(nested_blocks(5'000)), Catch::Contains("run.yaml:101:101: nested deeper"));
  CHECK(error_of(repeated("[", 100) + repeated("]", 100)) == "");
  CHECK_THAT(error_of(repeated("[", 101) + repeated("]", 101)), Catch::Contains("nested deeper"));
}

TEST_CASE("aliases that unfold without bound are an error") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + repeated(last + ", ", 9) + last + "]\n";
  }
  CHECK_THAT(error_of(bomb), Catch::Contains("more than 200000 values"));
  std::string deep = "a0: &a0 []\n";
  for (int i = 1; i < 200; ++i)
    deep += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  CHECK_THAT(error_of(deep), Catch::Contains("nested deeper"));
}

TEST_CASE("a value on the command line is YAML, or a string when it cannot be") {
  const std::string name = "command line: --x";
  CHECK(read_yaml_argument(name, "5") == Value(5));
  CHECK(read_yaml_argument(name, "[1, 2]") == Value(Value::List{1, 2}));
  CHECK(read_yaml_argument(name, "") == Value());
  CHECK(read_yaml_argument(name, "'5'") == Value("5"));
  for (const char* delimiter : {"|", ">", " ", "\t", ";", ","}) CHECK(read_yaml_argument(name, delimiter) == Value(delimiter));
  CHECK(read_yaml_argument(name, "*.csv") == Value("*.csv"));
  CHECK(read_yaml_argument(name, "@home") == Value("@home"));
  CHECK(read_yaml_argument(name, "{a: {b: 1}}").at("a").at("b").mark().str() == name);
  CHECK(read_yaml_argument(name, "{a: 1}").at("a").key_mark().str() == name);
  CHECK_THROWS_WITH(read_yaml_argument(name, "[1, 2"),
                    Catch::StartsWith(name + ": a list cannot be a key; is its ']' missing?") && Catch::Contains("'[1, 2'"));
}

TEST_CASE("a number knows the text that it was read from") {
  const Value read = read_yaml(SourceText("a.yaml", "[0123, 1_000, 0x10, 1.10, 1e3, '7', !!int 0x10, true]"));
  std::vector<std::string> texts;
  for (const Value& value : read.as_list()) texts.emplace_back(value.written());
  CHECK(texts == std::vector<std::string>{"0123", "1_000", "0x10", "1.10", "1e3", "", "", ""});
}

TEST_CASE("a plain scalar is what YAML 1.2's core schema says, with grouped digits and short floats") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::vector<std::string>, Value>> table = {
      {{"~", "null", "Null", "NULL"}, Value()},
      {{"true", "True", "TRUE"}, true},
      {{"false", "False", "FALSE"}, false},
      {{"12", "+12", "012", "0o14", "0xC", "0xc", "1_2"}, 12},
      {{"-12"}, -12},
      {{"50_000"}, 50'000},
      {{"9223372036854775807"}, kMost},
      {{"-9223372036854775808"}, -kMost - 1},
      {{"1.5", "15e-1", "+0.15E1"}, 1.5},
      {{"1.", "1e0"}, 1.0},
      {{"-.5"}, -0.5},
      {{"1_000.5"}, 1000.5},
      {{"1e-999"}, 0.0},
      {{".inf", "+.Inf"}, kInfinity},
      {{"-.Inf"}, -kInfinity}};
  for (const auto& [texts, value] : table) {
    for (const std::string& text : texts) {
      INFO(text);
      CHECK(read(text) == value);
    }
  }
  CHECK(std::isnan(read(".nan").as_double()));
  for (const char* text :
       {"yes", "no",   "on", "off", "tRue", "nil", "None", "1e", "e5",  "1.2.3", "0:30", "00:12:00:00", "2026-01-01", "1_",
        "_1",  "1__0", "0x", "0o8", "+",    ".",   "1 2",  "1f", "inf", "nan",   "-0x1", "32-true",     "0,3"}) {
    INFO(text);
    CHECK(read(text) == Value(text));
  }
  CHECK(read(std::string(100'000, '1') + "x").is_string());
  for (const char* text : {"9223372036854775808", "0xfffffffffffffffff", "1e999"})
    CHECK_THAT(error_of(text), Catch::Contains("does not fit into 64 bits"));
}
