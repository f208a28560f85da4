#include "levin/core/config/to_yaml.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace levin;

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

TEST_CASE("a key in which readers would not look far enough for its colon is written with a question mark") {
  const std::string longest(128, 'k');
  CHECK(to_yaml(Value(Value::Map{{longest, Value(1)}})) == longest + ": 1\n");
  CHECK(to_yaml(Value(Value::Map{{longest + "k", Value(1)}})) == "? " + longest + "k\n: 1\n");
}
