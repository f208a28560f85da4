#include "levin/core/options/component.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "levin/core/logger.h"
#include "support/temporary_folder.h"

using levin::Logger;
using levin::Value;
using levin::test::TemporaryFolder;
using Part = levin::Component<Logger>;

namespace {

struct ReelOptions {
  int speed = 19;
  static void declare(levin::OptionList<ReelOptions>& options) { options.add("speed", &ReelOptions::speed, "cm/s").min(1); }
};
struct Reel : Logger {
  using Options = ReelOptions;
  explicit Reel(Options given) : options(given) {}
  Options options;
};
LEVIN_REGISTER_LOGGER(Reel, "Turns");

struct TapeOptions {
  std::filesystem::path tape = "levin_tape.txt";
  std::vector<std::string> labels = {"levin_label.txt"};
  static void declare(levin::OptionList<TapeOptions>& options) {
    options.add("tape", &TapeOptions::tape, "What to play").input_file();
    options.add("labels", &TapeOptions::labels, "What is on it").input_file();
  }
};
struct Player : Logger {
  using Options = TapeOptions;
  explicit Player(Options given) : options(std::move(given)) {}
  Options options;
};
LEVIN_REGISTER_LOGGER(Player, "Plays a file");

struct Still : Logger {};
LEVIN_REGISTER_LOGGER(Still, "Has no options");

struct Machine {
  Part main = "Still";
  std::vector<Part> others;
  static void declare(levin::OptionList<Machine>& options) {
    options.add("main", &Machine::main, "The main one");
    options.add("others", &Machine::others, "More of them");
  }
};

Value reel(int speed) {
  Value value(Value::Map{});
  value["class_path"] = "some.where.Reel";
  value["init_args"]["speed"] = speed;
  return value;
}

}  // namespace

TEST_CASE("a component is a name, a name with arguments, or nothing") {
  const auto named = levin::OptionType<Part>::read("Reel");
  CHECK(std::dynamic_pointer_cast<Reel>(named.get())->options.speed == 19);
  const auto with_arguments = levin::OptionType<Part>::read(reel(38));
  CHECK(std::dynamic_pointer_cast<Reel>(with_arguments.get())->options.speed == 38);
  CHECK(with_arguments.get() == with_arguments.get());
  CHECK(levin::OptionType<Part>::read(Value()).empty());
  CHECK(Part(std::make_shared<Reel>(ReelOptions{9})).get() != nullptr);
}

TEST_CASE("components in options are checked where they are read, and written with all defaults") {
  Value map(Value::Map{});
  map["main"] = "Reel";
  map["others"].push_back(reel(4));
  const Value written = levin::write_options(levin::read_options<Machine>(map));
  CHECK(written.at("main").at("class_path") == Value("Reel"));
  CHECK(written.at("main").at("init_args").at("speed") == Value(19));
  CHECK(written.at("others").as_list().at(0) == reel(4));
  CHECK(levin::write_options(levin::read_options<Machine>(written)) == written);

  map["others"].push_back(reel(0));
  CHECK_THROWS_WITH(levin::read_options<Machine>(map), "others: speed: must be at least 1, got int 0");
  map["others"] = Value(Value::List{"Reel", Value()});
  CHECK_THROWS_WITH(levin::read_options<Machine>(map),
                    Catch::Contains("others: expected logger") && Catch::Contains("got null"));
  map["others"] = Value(Value::List{"Rele"});
  CHECK_THROWS_WITH(levin::read_options<Machine>(map), "others: unknown logger class 'Rele'; did you mean 'Reel'?");
}

TEST_CASE("one component stands for a list of one, and null for none") {
  Value map(Value::Map{});
  map["others"] = reel(4);
  CHECK(levin::read_options<Machine>(map).others.size() == 1);
  map["others"] = Value();
  CHECK(levin::read_options<Machine>(map).others.empty());
}

TEST_CASE("a component without arguments is written as its name") {
  Value map(Value::Map{});
  map["main"] = "Still";
  map["others"].push_back("Still");
  CHECK(levin::write_options(levin::read_options<Machine>(map)) == map);
  CHECK(levin::write_options(Machine{}).at("main") == Value("Still"));
  CHECK(levin::OptionType<Part>::write(Part()) == Value());
}

TEST_CASE("other shapes of a component are errors that say what is expected") {
  const auto message = [](Value value) -> std::string {
    try {
      levin::OptionType<Part>::read(value);
    } catch (const levin::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(message(5), Catch::Contains("expected logger (class name, or class_path and init_args), got int 5"));
  CHECK_THAT(message(Value(Value::Map{{"speed", 5}})), Catch::Contains("unknown key 'speed'") && Catch::Contains("init_args"));
  CHECK_THAT(message(Value(Value::Map{{"class_paht", "Reel"}})), Catch::Contains("did you mean 'class_path'?"));
  CHECK_THAT(message(Value(Value::Map{})), Catch::Contains("missing key 'class_path'"));
  CHECK_THAT(message(Value(Value::Map{{"class_path", 5}})), Catch::Contains("expected a class name, got int 5"));
  CHECK_THAT(message(Value(Value::Map{{"class_path", "Reel"}, {"init_args", 5}})), Catch::Contains("expected map, got int 5"));
}

TEST_CASE("a default input file is written with the folder in which it is found, and need not be there") {
  const TemporaryFolder folder;
  const Value as_declared = Value(Value::Map{{"tape", "levin_tape.txt"}, {"labels", Value(Value::List{"levin_label.txt"})}});
  const Value given(Value::Map{{"class_path", "Player"}, {"init_args", as_declared}});
  CHECK(levin::OptionType<Part>::read("Player").init_args() == as_declared);
  CHECK(levin::OptionType<Part>::read(given).init_args() == as_declared);

  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::ofstream("levin_tape.txt") << "la";
  const Value found = levin::OptionType<Part>::read("Player").init_args();
  const Value found_as_given = levin::OptionType<Part>::read(given).init_args();
  std::filesystem::current_path(before);
  CHECK(found.at("tape") == Value((folder / "levin_tape.txt").string()));
  CHECK(found.at("labels") == as_declared.at("labels"));
  CHECK(found_as_given == found);
  // What was written names the same file here.
  const Value written(Value::Map{{"class_path", "Player"}, {"init_args", found}});
  CHECK(levin::OptionType<Part>::read(written).init_args() == found);
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
  const TapeOptions beside = levin::read_options<TapeOptions>(map);
  std::filesystem::remove(folder / "tape.txt");
  const TapeOptions as_written = levin::read_options<TapeOptions>(map);
  std::filesystem::current_path(before);
  CHECK(beside.tape == folder / "tape.txt");
  CHECK(as_written.tape == folder / "here/tape.txt");
}
