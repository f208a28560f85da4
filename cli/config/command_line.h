#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "levin/cli/config/override.h"
#include "levin/cli/config/subcommand.h"

namespace levin::cli {

/// `--config FILE`.
struct ConfigFile {
  std::string path;
  std::optional<std::string> text = {};  ///< the YAML itself, whose name `path` is
  friend bool operator==(const ConfigFile&, const ConfigFile&) = default;
};
/// What configures a run, in the order of the command line: later ones win.
using ConfigSource = std::variant<ConfigFile, Override>;

/// The parsed command line.
struct CommandLine {
  std::string command;  ///< the name of a Subcommand; empty when `output` is all there is to do
  /// The command whose sections and variables count: a check is of a fit, and so is a sweep.
  std::string configured_as() const { return command == "check" || command == "sweep" ? "fit" : command; }
  std::vector<ConfigSource> sources;
  std::size_t environment_sources = 0;  ///< so many of them, the first, are not of the command line: see add_environment()
  bool has_project_file = false;        ///< the last of these is config.yaml, found and not named
  std::vector<std::string> plugins;
  std::optional<std::string> help_topic;  ///< of `--help EarlyStopping` or `--model.help=Digits`: a class, a kind or a key
  std::vector<std::string> words;         ///< all of it as typed, the program first; set by run()
  std::string output;                     ///< --help and --version: what to print, and be done
};

/// Parses the command line. `typed` is argv without the program. Throws ConfigError on a wrong one.
CommandLine parse_command_line(const std::vector<std::string>& typed, const std::vector<Subcommand>& subcommands);

}  // namespace levin::cli
