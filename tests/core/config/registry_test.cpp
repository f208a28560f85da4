#include "levin/core/config/registry.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "levin/core/config/component.h"
#include "levin/core/logger.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using Part = Component<Logger>;

namespace {

struct TapeOptions {
  int length = 10;
  std::string side = "a";
  static void declare(OptionList<TapeOptions>& options) {
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

struct PlayerOptions {
  std::filesystem::path tape = "levin_tape.txt";
  std::vector<std::string> labels = {"levin_label.txt"};
  static void declare(OptionList<PlayerOptions>& options) {
    options.add("tape", &PlayerOptions::tape, "What to play").input_file();
    options.add("labels", &PlayerOptions::labels, "What is on it").input_file();
  }
};
struct Player : Logger {
  using Options = PlayerOptions;
  explicit Player(Options given) : options(std::move(given)) {}
  Options options;
};

namespace first {
struct Twin : Logger {};
}  // namespace first
namespace second {
struct Twin : Logger {};
}  // namespace second

LEVIN_REGISTER_LOGGER(Tape, "Writes to tape");
LEVIN_REGISTER_LOGGER(Plain);
LEVIN_REGISTER_LOGGER(Player, "Plays a file");
LEVIN_REGISTER_LOGGER(first::Twin, "One of two");
LEVIN_REGISTER_LOGGER(second::Twin, "The other");

struct Machine {
  Part main = "Plain";
  std::vector<Part> others;
  static void declare(OptionList<Machine>& options) {
    options.add("main", &Machine::main, "The main one");
    options.add("others", &Machine::others, "More of them");
  }
};

const Registry<Logger>& loggers() { return Registry<Logger>::instance(); }

Value tape(int length) {
  return Value(
      Value::Map{{"class_path", "some.where.Tape"}, {"init_args", Value(Value::Map{{"length", length}, {"side", "a"}})}});
}

}  // namespace

TEST_CASE("a last part that fits two classes needs the whole name") {
  CHECK(loggers().find("first::Twin")->help == "One of two");
  CHECK(loggers().find("second::Twin")->help == "The other");
  CHECK(loggers().find("Twin") == nullptr);
  CHECK_THROWS_WITH(loggers().make("Twin", Value()), "ambiguous logger class 'Twin'; it may be 'first::Twin', 'second::Twin'");
}

TEST_CASE("a name that is taken is an error, which waits until a library has been loaded") {
  CHECK_THROWS_AS(Registry<Logger>::instance().add<Tape>("Tape", "Again"), MisuseError);
  CHECK(detail::take_registration_errors().empty());
  const Registrar<Logger, Tape> again("Tape", "Again");
  const auto errors = detail::take_registration_errors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0] == "the logger class 'Tape' is registered twice; give one of them another name");
  CHECK(detail::take_registration_errors().empty());
}

TEST_CASE("a component is a name, a name with arguments, or nothing; the last part of a name is enough") {
  const auto length_of = [](const Value& value) {
    return std::dynamic_pointer_cast<Tape>(OptionType<Part>::read(value).get())->options.length;
  };
  for (const char* name : {"Tape", "mine::Tape", "::Tape"}) CHECK(length_of(name) == 10);
  CHECK(length_of(tape(38)) == 38);
  const auto with_arguments = OptionType<Part>::read(tape(38));
  CHECK(with_arguments.get() == with_arguments.get());
  CHECK(OptionType<Part>::read(Value()).empty());
  CHECK(Part(std::make_shared<Tape>(TapeOptions{.length = 9})).get() != nullptr);
}

TEST_CASE("components in options are written with all defaults, or as their names") {
  Value map(Value::Map{{"main", "Plain"}});
  map["others"].push_back(tape(4));
  map["others"].push_back("Tape");
  const Value written = write_options(read_options<Machine>(map));
  CHECK(written.at("main") == Value("Plain"));
  CHECK(written.at("others").as_list().at(0) == tape(4));
  CHECK(written.at("others").as_list().at(1).at("init_args") == tape(10).at("init_args"));
  CHECK(write_options(read_options<Machine>(written)) == written);
  CHECK(OptionType<Part>::write(Part()) == Value());
}

TEST_CASE("a component's arguments are checked once: where they are read, or with the options that C++ puts them into") {
  static int checks = 0;
  const auto count = [](const Value& init_args) {
    ++checks;
    return init_args;
  };
  Registry<Logger>::instance().add({"Counted", "", {}, count},
                                   [](const Value&) { return std::make_shared<Tape>(TapeOptions{}); });
  const auto read = read_options<Machine>(Value(Value::Map{{"main", "Counted"}, {"others", Value(Value::List{"Counted"})}}));
  CHECK(checks == 2);
  (void)checked("Machine", read);
  CHECK(checks == 2);
  (void)checked("Machine", Machine{.main = "Counted", .others = {}});
  CHECK(checks == 3);
}

TEST_CASE("a default input file is written with the folder in which it is found, and need not be there") {
  const TemporaryFolder folder;
  const Value as_declared = Value(Value::Map{{"tape", "levin_tape.txt"}, {"labels", Value(Value::List{"levin_label.txt"})}});
  const auto player = [](const Value& init_args) {
    return Value(Value::Map{{"class_path", "Player"}, {"init_args", init_args}});
  };
  CHECK(OptionType<Part>::read("Player").init_args() == as_declared);
  CHECK(OptionType<Part>::read(player(as_declared)).init_args() == as_declared);

  std::ofstream(folder / "levin_tape.txt") << "la";
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Value found = OptionType<Part>::read("Player").init_args();
  const Value found_as_given = OptionType<Part>::read(player(as_declared)).init_args();
  std::filesystem::current_path(before);
  CHECK(found_as_given == found);
  CHECK(found.at("tape") == Value((folder / "levin_tape.txt").string()));
  CHECK(found.at("labels") == as_declared.at("labels"));
  // What was written names the same file here.
  CHECK(OptionType<Part>::read(player(found)).init_args() == found);
}
