#include "levin/core/options/registry.h"

#include <catch2/catch.hpp>

#include "levin/core/options/component.h"

#include "levin/core/logger.h"

using levin::Logger;
using levin::Registry;
using levin::Value;

namespace {

struct TapeOptions {
  int length = 10;
  std::string side = "a";
  static void declare(levin::OptionList<TapeOptions>& options) {
    options.add("length", &TapeOptions::length, "Metres").min(1);
    options.add("side", &TapeOptions::side, "Which side").choices({"a", "b"});
  }
};

struct Tape : Logger {
  using Options = TapeOptions;
  explicit Tape(Options given) : options(std::move(given)) {}
  Options options;
};
struct Plain : Logger {};

struct Remembering : Tape {
  using Tape::Tape;
  const Value& hparams() const { return hparams_; }
  void set_hparams(Value hparams) { hparams_ = std::move(hparams); }
  Value hparams_;
};

namespace first {
struct Twin : Logger {};
}  // namespace first
namespace second {
struct Twin : Logger {};
}  // namespace second

LEVIN_REGISTER_LOGGER(Tape, "Writes to tape");
LEVIN_REGISTER_LOGGER(Remembering, "Knows its options");
LEVIN_REGISTER_LOGGER(Plain);
LEVIN_REGISTER_LOGGER(first::Twin, "One of two");
LEVIN_REGISTER_LOGGER(second::Twin, "The other");

const Registry<Logger>& loggers() { return Registry<Logger>::instance(); }

Value map_of(const char* key, Value value) {
  Value map(Value::Map{});
  map[key] = std::move(value);
  return map;
}

Value marked(Value value, int line, int column) {
  value.set_mark({"run.yaml", line, column});
  return value;
}

}  // namespace

TEST_CASE("a registered class is made by name, with its options") {
  const auto tape = std::dynamic_pointer_cast<Tape>(loggers().make("Tape", map_of("length", 90)));
  REQUIRE(tape);
  CHECK(tape->options.length == 90);
  CHECK(tape->options.side == "a");
  CHECK(std::dynamic_pointer_cast<Plain>(loggers().make("Plain", Value())) != nullptr);
}

TEST_CASE("a class that keeps hyper-parameters is told its complete options") {
  const auto made = std::dynamic_pointer_cast<Remembering>(loggers().make("Remembering", map_of("length", 90)));
  REQUIRE(made);
  CHECK(made->hparams().at("length") == Value(90));
  CHECK(made->hparams().at("side") == Value("a"));
}

TEST_CASE("the last part of a dotted or C++ name is enough") {
  for (const char* name : {"Tape", "lightning.pytorch.loggers.Tape", "mine::Tape", "::Tape"}) {
    INFO(name);
    REQUIRE(loggers().find(name) != nullptr);
    CHECK(loggers().find(name)->name == "Tape");
  }
  CHECK(loggers().find("") == nullptr);
  CHECK(loggers().find("Tape.") == nullptr);
}

TEST_CASE("a last part that fits two classes needs the whole name") {
  CHECK(loggers().find("first::Twin")->help == "One of two");
  CHECK(loggers().find("second::Twin")->help == "The other");
  CHECK(loggers().find("Twin") == nullptr);
  CHECK_THROWS_WITH(loggers().make("Twin", Value()), "ambiguous logger class 'Twin'; it may be 'first::Twin', 'second::Twin'");
}

TEST_CASE("an unknown class is an error at its name, with the one that was meant") {
  CHECK_THROWS_WITH(loggers().make(marked("Tpae", 6, 15), Value()),
                    "run.yaml:6:15: unknown logger class 'Tpae'; did you mean 'Tape'?");
  CHECK_THROWS_WITH(loggers().make("Qqqqqqqqqq", Value()),
                    Catch::Contains("the known classes are") && Catch::Contains("'Tape'"));
  CHECK_THROWS_AS(loggers().make(5, Value()), levin::ConfigError);
}

TEST_CASE("wrong arguments of a class are errors, also where it takes none") {
  CHECK_THROWS_WITH(loggers().make("Tape", map_of("length", marked(0, 7, 9))),
                    "run.yaml:7:9: length: must be at least 1, got int 0");
  CHECK_THROWS_WITH(loggers().make("Plain", map_of("length", 1)), "unknown key 'length'; there are no keys");
}

TEST_CASE("complete() checks the arguments and fills in every default without making an object") {
  const Value complete = loggers().complete("Tape", map_of("side", "b"));
  CHECK(complete.at("length") == Value(10));
  CHECK(complete.at("side") == Value("b"));
  CHECK(loggers().complete("Plain", Value()) == Value(Value::Map{}));
  CHECK_THROWS_AS(loggers().complete("Tape", map_of("sides", "b")), levin::ConfigError);
}

TEST_CASE("classes are listed by name, with help and options") {
  std::vector<std::string> names;
  for (const levin::ClassInfo* info : loggers().classes()) names.push_back(info->name);
  CHECK(std::is_sorted(names.begin(), names.end()));
  REQUIRE(loggers().find("Tape") != nullptr);
  CHECK(loggers().find("Tape")->help == "Writes to tape");
  CHECK(loggers().find("Tape")->options.at(0).name == "length");
  CHECK(Registry<Logger>::kind() == "logger");
}

TEST_CASE("a name that is taken is an error; while a library loads it is kept for later") {
  CHECK_THROWS_AS(Registry<Logger>::instance().add<Tape>("Tape", "Again"), levin::MisuseError);
  CHECK(levin::detail::take_registration_errors().empty());
  const levin::Registrar<Logger, Tape> again("Tape", "Again");
  const auto errors = levin::detail::take_registration_errors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0] == "the logger class 'Tape' is registered twice; give one of them another name");
  CHECK(levin::detail::take_registration_errors().empty());
}
