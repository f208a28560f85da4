#pragma once

#include "levin/cli/command_line.h"
#include "levin/cli/run_config.h"
#include "levin/core/base/fwd.h"

namespace levin::cli {

/// Runs "fit", "validate", "test" or "predict" with a checked configuration, `line` being the command line that it came from:
/// makes the Trainer (which starts the other ranks), the module and its data, and calls the entry point.
/// Ranks: all.
void run_command(const CommandLine& line, const RunConfig& config);

/// The configuration's `optimizer:` and `lr_scheduler:` take the place of the module's own.
void override_optimizers(Trainer& trainer, const RunConfig& config);

}  // namespace levin::cli
