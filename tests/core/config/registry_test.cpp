#include "levin/core/config/registry.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "levin/core/config/component.h"
#include "levin/core/logger.h"
#include "support/error_of.h"
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

struct Remembering : Tape {
  using Tape::Tape;
  const Value& hparams() const { return hparams_; }
  void set_hparams(Value hparams) { hparams_ = std::move(hparams); }
  Value hparams_;
};

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
LEVIN_REGISTER_LOGGER(Remembering, "Knows its options");
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

Value map_of(const char* key, Value value) {
  Value map(Value::Map{});
  map[key] = std::move(value);
  return map;
}

Value tape(int length) {
  return Value(
      Value::Map{{"class_path", "some.where.Tape"}, {"init_args", Value(Value::Map{{"length", length}, {"side", "a"}})}});
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
  CHECK_THROWS_AS(loggers().make(5, Value()), ConfigError);
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
  CHECK_THROWS_AS(loggers().complete("Tape", map_of("sides", "b")), ConfigError);
}

TEST_CASE("classes are listed by name, with help and options") {
  std::vector<std::string> names;
  for (const ClassInfo* info : loggers().classes()) names.push_back(info->name);
  CHECK(std::is_sorted(names.begin(), names.end()));
  REQUIRE(loggers().find("Tape") != nullptr);
  CHECK(loggers().find("Tape")->help == "Writes to tape");
  CHECK(loggers().find("Tape")->options.at(0).name == "length");
  CHECK(Registry<Logger>::kind() == "logger");
}

TEST_CASE("a name that is taken is an error; while a library loads it is kept for later") {
  CHECK_THROWS_AS(Registry<Logger>::instance().add<Tape>("Tape", "Again"), MisuseError);
  CHECK(detail::take_registration_errors().empty());
  const Registrar<Logger, Tape> again("Tape", "Again");
  const auto errors = detail::take_registration_errors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0] == "the logger class 'Tape' is registered twice; give one of them another name");
  CHECK(detail::take_registration_errors().empty());
}

TEST_CASE("a component is a name, a name with arguments, or nothing") {
  const auto named = OptionType<Part>::read("Tape");
  CHECK(std::dynamic_pointer_cast<Tape>(named.get())->options.length == 10);
  const auto with_arguments = OptionType<Part>::read(tape(38));
  CHECK(std::dynamic_pointer_cast<Tape>(with_arguments.get())->options.length == 38);
  CHECK(with_arguments.get() == with_arguments.get());
  CHECK(OptionType<Part>::read(Value()).empty());
  CHECK(Part(std::make_shared<Tape>(TapeOptions{.length = 9})).get() != nullptr);
}

TEST_CASE("components in options are checked where they are read, and written with all defaults") {
  Value map(Value::Map{});
  map["main"] = "Tape";
  map["others"].push_back(tape(4));
  const Value written = write_options(read_options<Machine>(map));
  CHECK(written.at("main").at("class_path") == Value("Tape"));
  CHECK(written.at("main").at("init_args").at("length") == Value(10));
  CHECK(written.at("others").as_list().at(0) == tape(4));
  CHECK(write_options(read_options<Machine>(written)) == written);

  map["others"].push_back(tape(0));
  CHECK_THROWS_WITH(read_options<Machine>(map), "others: length: must be at least 1, got int 0");
  map["others"] = Value(Value::List{"Tape", Value()});
  CHECK_THROWS_WITH(read_options<Machine>(map), Catch::Contains("others: expected logger") && Catch::Contains("got null"));
  map["others"] = Value(Value::List{"Tpae"});
  CHECK_THROWS_WITH(read_options<Machine>(map), "others: unknown logger class 'Tpae'; did you mean 'Tape'?");
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

TEST_CASE("one component stands for a list of one, and null for none") {
  Value map(Value::Map{});
  map["others"] = tape(4);
  CHECK(read_options<Machine>(map).others.size() == 1);
  map["others"] = Value();
  CHECK(read_options<Machine>(map).others.empty());
}

TEST_CASE("a component without arguments is written as its name") {
  Value map(Value::Map{});
  map["main"] = "Plain";
  map["others"].push_back("Plain");
  CHECK(write_options(read_options<Machine>(map)) == map);
  CHECK(write_options(Machine{}).at("main") == Value("Plain"));
  CHECK(OptionType<Part>::write(Part()) == Value());
}

TEST_CASE("other shapes of a component are errors that say what is expected") {
  const auto message = [](const Value& value) {
    return levin::test::error_of<ConfigError>([&] { OptionType<Part>::read(value); });
  };
  CHECK_THAT(message(5), Catch::Contains("expected logger (class name, or class_path and init_args), got int 5"));
  CHECK_THAT(message(Value(Value::Map{{"speed", 5}})), Catch::Contains("unknown key 'speed'") && Catch::Contains("init_args"));
  CHECK_THAT(message(Value(Value::Map{{"class_paht", "Tape"}})), Catch::Contains("did you mean 'class_path'?"));
  CHECK_THAT(message(Value(Value::Map{})), Catch::Contains("missing key 'class_path'"));
  CHECK_THAT(message(Value(Value::Map{{"class_path", 5}})), Catch::Contains("expected a class name, got int 5"));
  CHECK_THAT(message(Value(Value::Map{{"class_path", "Tape"}, {"init_args", 5}})), Catch::Contains("expected map, got int 5"));
}

TEST_CASE("a default input file is written with the folder in which it is found, and need not be there") {
  const TemporaryFolder folder;
  const Value as_declared = Value(Value::Map{{"tape", "levin_tape.txt"}, {"labels", Value(Value::List{"levin_label.txt"})}});
  const Value given(Value::Map{{"class_path", "Player"}, {"init_args", as_declared}});
  CHECK(OptionType<Part>::read("Player").init_args() == as_declared);
  CHECK(OptionType<Part>::read(given).init_args() == as_declared);

  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::ofstream("levin_tape.txt") << "la";
  const Value found = OptionType<Part>::read("Player").init_args();
  const Value found_as_given = OptionType<Part>::read(given).init_args();
  std::filesystem::current_path(before);
  CHECK(found.at("tape") == Value((folder / "levin_tape.txt").string()));
  CHECK(found.at("labels") == as_declared.at("labels"));
  CHECK(found_as_given == found);
  // What was written names the same file here.
  const Value written(Value::Map{{"class_path", "Player"}, {"init_args", found}});
  CHECK(OptionType<Part>::read(written).init_args() == found);
}

TEST_CASE("an input file beside the YAML file that names it comes before one of that name in the working folder") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "here");
  for (const char* name : {"tape.txt", "here/tape.txt"}) std::ofstream(folder / name) << "la";
  Value tape("tape.txt");
  tape.set_mark({(folder / "run.yaml").string(), 2, 8});
  const Value map(Value::Map{{"tape", tape}});
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder / "here");
  const PlayerOptions beside = read_options<PlayerOptions>(map);
  std::filesystem::remove(folder / "tape.txt");
  const PlayerOptions as_written = read_options<PlayerOptions>(map);
  std::filesystem::current_path(before);
  CHECK(beside.tape == folder / "tape.txt");
  CHECK(as_written.tape == folder / "here/tape.txt");
}
