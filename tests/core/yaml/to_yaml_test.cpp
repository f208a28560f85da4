#include "levin/core/yaml/to_yaml.h"

#include <rapidcheck.h>
#include <yaml-cpp/yaml.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using levin::to_yaml;
using levin::Value;

namespace {

// Reads a document in the way of YAML's core schema: quoted text is a string, bare text is whatever it looks like.
Value read(const YAML::Node& node) {
  if (node.IsSequence()) {
    Value list(Value::List{});
    for (const YAML::Node& element : node) list.push_back(read(element));
    return list;
  }
  if (node.IsMap()) {
    Value::Map map;
    for (const auto& entry : node) map.emplace_back(read(entry.first).as_string(), read(entry.second));
    return map;
  }
  if (node.Tag() == "tag:yaml.org,2002:binary") {
    const auto bytes = node.as<YAML::Binary>();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (node.Tag() == "!") return node.Scalar();
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;
  if (node.IsNull()) return Value();
  if (node.Scalar().find_first_of(".") == std::string::npos && YAML::convert<std::int64_t>::decode(node, integer))
    return integer;
  if (YAML::convert<double>::decode(node, number)) return number;
  if (YAML::convert<bool>::decode(node, boolean)) return boolean;
  return node.Scalar();
}

Value round_trip(const Value& value) { return read(YAML::Load(to_yaml(value))); }

const std::vector<std::string> kTricky = {
    "",     " ",          "no",   "Yes",    "NULL",   "~",      "1",          "1.5",      "1e5",      "0x1f",
    ".inf", "-",          "- a",  "a: b",   "a #b",   "#",      "\n",         "a\nb\n",   "\t",       "'",
    "\"",   "!tag",       "&a",   "*a",     "%x",     "@",      "`",          "|",        ">",        "{}",
    "[]",   "2020-01-01", "1:30", "1_000",  "<<",     "=",      "...",        "---",      "\\",       "é",
    "日本", "C:\\x",      "\x7f", "\u0085", "\u2028", "\ufeff", "\U0001F600", "\xff\xfe", "\xc0\x80", "\xed\xa0\x80"};

rc::Gen<std::string> any_text() {
  const auto tricky = rc::gen::elementOf(kTricky);
  return rc::gen::oneOf(tricky, rc::gen::just(std::string("a\0b", 3)), rc::gen::arbitrary<std::string>(),
                        rc::gen::container<std::string>(rc::gen::inRange<char>(32, 127)));
}

rc::Gen<Value> any_value(int depth) {
  const auto real = rc::gen::map(rc::gen::arbitrary<std::uint64_t>(), [](std::uint64_t bits) {
    const double number = std::bit_cast<double>(bits);
    return Value(std::isnan(number) ? 0.5 : number);
  });
  const auto scalar =
      rc::gen::oneOf(rc::gen::just(Value()), rc::gen::map(rc::gen::arbitrary<bool>(), [](bool v) { return Value(v); }),
                     rc::gen::map(rc::gen::arbitrary<std::int64_t>(), [](std::int64_t v) { return Value(v); }), real,
                     rc::gen::map(any_text(), [](std::string v) { return Value(std::move(v)); }));
  if (depth == 0) return scalar;
  return rc::gen::mapcat(rc::gen::inRange(0, 4), [=](int kind) -> rc::Gen<Value> {
    if (kind < 2) return scalar;
    const auto elements = rc::gen::container<std::vector<Value>>(any_value(depth - 1));
    if (kind == 2) return rc::gen::map(elements, [](std::vector<Value> list) { return Value(std::move(list)); });
    return rc::gen::map(rc::gen::container<std::map<std::string, Value>>(any_text(), any_value(depth - 1)),
                        [](const std::map<std::string, Value>& map) { return Value(Value::Map(map.begin(), map.end())); });
  });
}

}  // namespace

namespace levin {
void showValue(const Value& value, std::ostream& out) { out << to_yaml(value); }
}  // namespace levin

TEST_CASE("a tree of options is written as a person would write it") {
  Value options(Value::Map{});
  options["class_path"] = "levin.callbacks.EarlyStopping";
  options["init_args"]["monitor"] = "val_loss";
  options["init_args"]["lr"] = 1e-5;
  options["init_args"]["patience"] = 3;
  options["init_args"]["verbose"] = false;
  options["init_args"]["dirpath"] = Value();
  options["init_args"]["layers"] = Value(Value::List{64, 2.0, "no"});
  options["init_args"]["empty"] = Value(Value::List{});
  options["init_args"]["nothing"] = Value(Value::Map{});
  CHECK(to_yaml(options) ==
        "class_path: levin.callbacks.EarlyStopping\n"
        "init_args:\n"
        "  monitor: val_loss\n"
        "  lr: 1.0e-05\n"
        "  patience: 3\n"
        "  verbose: false\n"
        "  dirpath: null\n"
        "  layers:\n"
        "    - 64\n"
        "    - 2.0\n"
        "    - \"no\"\n"
        "  empty: []\n"
        "  nothing: {}\n");
}

TEST_CASE("scalars keep their type") {
  CHECK(to_yaml(Value("1")) == "\"1\"\n");
  CHECK(to_yaml(Value("true")) == "\"true\"\n");
  CHECK(to_yaml(Value("1e-3")) == "\"1e-3\"\n");
  CHECK(to_yaml(Value("")) == "\"\"\n");
  CHECK(to_yaml(Value(1.0)) == "1.0\n");
  CHECK(to_yaml(Value(1e300)) == "1.0e+300\n");
  CHECK(to_yaml(Value(std::numeric_limits<double>::infinity())) == ".inf\n");
  CHECK(to_yaml(Value(std::nan(""))) == ".nan\n");
  CHECK(to_yaml(Value("a\nb")) == "\"a\\nb\"\n");
  CHECK(to_yaml(Value("\xff")) == "!!binary \"/w==\"\n");
  // No text of YAML's, a line break to YAML 1.1, a number that is no character.
  CHECK(to_yaml(Value("ä\x7f")) == "\"\\xe4\\x7f\"\n");
  CHECK(to_yaml(Value("a\u2028")) == "\"a\\u2028\"\n");
  CHECK(to_yaml(Value("\uffff")) == "!!binary \"77+/\"\n");
}

TEST_CASE("a key of any length comes back") {
  for (const std::size_t length : {1UL, 100UL, 1000UL, 5000UL}) {
    const Value map(Value::Map{{std::string(length, 'k'), Value(1)}});
    CHECK(round_trip(map) == map);
  }
}

TEST_CASE("whatever is written comes back equal") {
  REQUIRE(rc::check([] {
    const Value value = *any_value(3);
    RC_ASSERT(round_trip(value) == value);
  }));
}
