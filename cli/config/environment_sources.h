#pragma once

#include "levin/cli/config/command_line.h"

namespace levin::cli {

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

}  // namespace levin::cli
