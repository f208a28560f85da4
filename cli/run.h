#pragma once

#include "levin/cli/command_line.h"
#include "levin/cli/run_config.h"

namespace levin::cli {

/// Runs "fit", "validate", "test" or "predict" with a checked configuration, `line` being the command line that it came from:
/// makes the Trainer (which starts the other ranks), the module and its data, and calls the entry point.
/// Ranks: all.
void run_command(const CommandLine& line, const RunConfig& config);

}  // namespace levin::cli
