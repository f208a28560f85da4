#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "levin/cli/run_config.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"

namespace CLI {
class App;
}

namespace levin::cli {

/// `--config FILE`.
struct ConfigFile {
  std::string path;
  friend bool operator==(const ConfigFile&, const ConfigFile&) = default;
};
/// One `--key=value` of the command line, or a variable of the environment.
struct Override {
  std::string key;            ///< "trainer.callbacks.patience"
  std::string text;           ///< read as YAML
  bool append = false;        ///< `--trainer.callbacks+=EarlyStopping`
  std::string variable = {};  ///< the variable that it came from; empty: the command line
  /// "command line: --trainer.callbacks+", "environment: LEVIN_TRAINER__MAX_EPOCHS"; a long key is cut.
  std::string name() const;
  /// As it was written: "--trainer.max_epochs=5", "LEVIN_TRAINER__MAX_EPOCHS=5".
  std::string written() const;
  friend bool operator==(const Override&, const Override&) = default;
};
/// What configures a run, in the order of the command line: later ones win.
using ConfigSource = std::variant<ConfigFile, Override>;

/// The command line, taken apart.
struct CommandLine {
  std::string command;  ///< the name of a Subcommand; empty when `output` is all there is to do
  /// The command whose sections and variables count: a check is of a fit, and so is a sweep.
  std::string configured_as() const { return command == "check" || command == "sweep" ? "fit" : command; }
  std::vector<ConfigSource> sources;
  std::size_t environment_sources = 0;  ///< so many of them, the first, are not of the command line: see add_environment()
  bool has_project_file = false;        ///< the last of these is config.yaml, which nobody has named
  std::vector<std::string> plugins;
  std::optional<std::string> help_topic;  ///< of `--help EarlyStopping` or `--model.help=Digits`: a class, a kind or a key
  std::vector<std::string> words;         ///< all of it as a person types it, the program first; set by run()
  std::string output;                     ///< --help and --version: what to print, and be done
};

/// A subcommand of `levin`.
struct Subcommand {
  std::string name;
  std::string help;
  std::function<void(CLI::App& app)> declare;       ///< declares its options, which `run` finds filled in
  std::function<int(const CommandLine& line)> run;  ///< does it, and gives the exit status
};

/// Declares --config and --plugin, of a subcommand that reads a configuration.
void declare_sources(CLI::App& app);

/// Takes the command line apart. `typed` is argv without the program. Throws ConfigError on a wrong one.
CommandLine parse_command_line(const std::vector<std::string>& typed, const std::vector<Subcommand>& subcommands);

/// Puts what else configures a run before the sources of a command line, each before those that win over it:
/// - `levin.yaml` of the working folder, if there is one; LEVIN_DEFAULT_CONFIG names another file, or none when it is empty;
/// - the file that LEVIN_CONFIG names;
/// - variables: LEVIN_TRAINER__MAX_EPOCHS=5 is `--trainer.max_epochs=5`, LEVIN_SEED_EVERYTHING=7 is `--seed_everything=7`. The
///   parts of a key are in upper case, or, where a part has a lower-case letter, as the option is written;
/// - variables for one command, which win over those for all: LEVIN_FIT__TRAINER__MAX_EPOCHS=5;
/// - `config.yaml` of the working folder, for a command that runs a model, where neither these nor the command line name a file
///   or a model.
///
/// A file that the command line names as well is read in its place there. Throws ConfigError for a variable with two
/// underscores in a row that begins with no section of the YAML.
void add_environment(CommandLine& line);

/// The command line to type so that a run goes on from a checkpoint: the words of the one that started it, quoted for a shell,
/// with this `--ckpt_path` in place of the one that they may have, and without weights to begin with. Secrets are masked.
std::string resume_command(const std::vector<std::string>& typed, const std::filesystem::path& checkpoint,
                           bool has_init_from = false);

/// The folder in which CMake finds levin, for -Dlevin_DIR: of an installed levin, or the build folder that the program is in.
std::filesystem::path cmake_folder();

/// A word as a shell reads it.
std::string shell_quoted(const std::string& word);
/// What an option's value is read as, so that it is this text.
std::string as_argument(const std::string& text);

/// What follows CLI11's help of `levin fit` and its like: the sections of the YAML, and where to read on.
std::string run_command_footer();

/// Help on a class ("EarlyStopping"), a kind of class ("callbacks"), a section ("trainer") or a key ("trainer.max_epochs").
/// Throws ConfigError ("did you mean …") on any other topic.
std::string topic_help(const std::string& topic);

/// The comments of `--print_config`: the help of each option in `config`, its range and choices.
CommentOf config_comments(const Value& config);

/// The kind of classes that an option takes, found in the JSON Schema of its type; empty when it takes none.
std::string kind_of(const Value& schema);

/// JSON Schema (draft 2020-12) of the YAML: every section, and every class that is registered now with its init_args.
Value config_schema();

/// A text with blanks behind it, as a cell of a column so wide.
inline std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

/// "{min,max}": what an option takes that is one of these, for CLI::Option::type_name(), where they are checked otherwise.
inline std::string choice_name(const std::vector<std::string>& choices) { return "{" + join(choices, ",") + "}"; }

// Each is made in the source that does its work.
Subcommand run_subcommand(const std::string& name, const std::string& help);  // run.cpp
Subcommand tune_subcommand();                                                 // run.cpp
Subcommand list_subcommand();                                                 // help_text.cpp
Subcommand schema_subcommand();                                               // help_text.cpp
Subcommand setup_subcommand();                                                // setup_command.cpp
Subcommand new_subcommand();                                                  // new_project.cpp
Subcommand inspect_subcommand();                                              // file_commands.cpp
Subcommand export_subcommand();                                               // file_commands.cpp
Subcommand bench_subcommand();                                                // bench_comm.cpp
Subcommand runs_subcommand();                                                 // runs_command.cpp
Subcommand sweep_subcommand();                                                // sweep_command.cpp
Subcommand report_subcommand();                                               // report_command.cpp
Subcommand completion_subcommand();                                           // completion_command.cpp
Subcommand doctor_subcommand();                                               // doctor_command.cpp
Subcommand man_subcommand();                                                  // manual_command.cpp

/// The table of all.
inline std::vector<Subcommand> subcommands() {
  return {run_subcommand("fit", "Train a model, and validate it on the way"),
          run_subcommand("validate", "Run the validation loop"),
          run_subcommand("test", "Run the test loop"),
          run_subcommand("predict", "Run the prediction loop"),
          tune_subcommand(),
          run_subcommand("check", "Look for what is wrong with data, weights and gradients, without training"),
          list_subcommand(),
          schema_subcommand(),
          new_subcommand(),
          setup_subcommand(),
          inspect_subcommand(),
          export_subcommand(),
          runs_subcommand(),
          sweep_subcommand(),
          report_subcommand(),
          bench_subcommand(),
          doctor_subcommand(),
          completion_subcommand(),
          man_subcommand()};
}

/// The configuration of a run. Before anything of the user's is read, ranks that it may start are given their beginning.
RunConfig begin_run(const CommandLine& line);  // run_main.cpp

}  // namespace levin::cli
