#pragma once

#include <string>
#include <vector>

#include "levin/cli/config/command_line.h"
#include "levin/cli/config/run_config.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// Reads the files and overrides of a command line, loads the plug-ins that it names, and checks all. Throws ConfigError.
RunConfig load_config(const CommandLine& line);

/// Loads the plug-ins that a command line and its files name. Gives a text of these, a line each. Throws ConfigError.
std::string load_plugins_of(const CommandLine& line);

/// What a command line and its files say, of which some may be wrong: for suggestions. Null where it cannot be read.
Value partial_config(const CommandLine& line);

/// Throws ConfigError unless a model is given, as a run needs.
void require_model(const CommandLine& line, const RunConfig& config);

/// A line for each option that the arguments of `model:` and `data:` have both, with different values, of which at least one
/// was given: such as a batch_size or num_classes that was changed once of twice. Each names both values with file and line.
std::vector<std::string> different_shared_options(const Value& model, const Value& data);

}  // namespace levin::cli
