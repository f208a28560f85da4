#pragma once

#include <map>
#include <string>
#include <vector>

#include "levin/cli/command_line.h"

namespace levin::cli {

/// The variables of this process whose names begin with LEVIN_.
std::map<std::string, std::string> levin_variables();

/// What configures a run besides its command line, each source before those that win over it:
/// - `levin.yaml` of the working folder, if there is one; LEVIN_DEFAULT_CONFIG names another file, or none when it is empty;
/// - the file that LEVIN_CONFIG names;
/// - variables: LEVIN_TRAINER__MAX_EPOCHS=5 is `--trainer.max_epochs=5`, LEVIN_SEED_EVERYTHING=7 is `--seed_everything=7`. The
///   parts of a key are in upper case, or, where a part has a lower-case letter, as the option is written;
/// - variables for one command, which win over those for all: LEVIN_FIT__TRAINER__MAX_EPOCHS=5.
///
/// Throws ConfigError for a variable with two underscores in a row that begins with no section of the YAML.
std::vector<ConfigSource> environment_sources(const std::string& command,
                                              const std::map<std::string, std::string>& variables = levin_variables());

/// Puts these sources before those of a command line that runs or describes a configuration. A file that the command line names
/// as well is read in its place there.
void add_environment(CommandLine& line);

}  // namespace levin::cli
