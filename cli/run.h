#pragma once

#include <string>

#include "levin/cli/run_config.h"

namespace levin::cli {

/// Runs "fit", "validate", "test" or "predict" with a checked configuration: makes the Trainer (which starts the other ranks),
/// the module and its data, and calls the entry point. Gives the exit status. Ranks: all.
int run_command(const std::string& command, const RunConfig& config);

}  // namespace levin::cli
