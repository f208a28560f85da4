#pragma once

#include "levin/cli/command_line.h"
#include "levin/cli/run_config.h"

namespace levin::cli {

/// Reads the configuration files and overrides of a command line, loads the plug-ins that they and `--plugin` name, and checks
/// everything. Throws ConfigError.
RunConfig load_config(const CommandLine& line);

/// Loads the plug-ins that a command line and its configuration files name, and reads nothing else. Gives their files. Throws
/// ConfigError.
std::vector<std::string> load_plugins_of(const CommandLine& line);

/// What a command line and its files say, of which some may be wrong: for suggestions. Null where it cannot be read.
Value config_as_far_as_known(const CommandLine& line);

/// Throws ConfigError unless a model is given, as a run needs.
void require_model(const RunConfig& config);

}  // namespace levin::cli
