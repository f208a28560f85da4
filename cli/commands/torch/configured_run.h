#pragma once

#include "levin/cli/config/command_line.h"
#include "levin/cli/config/run_config.h"

namespace levin {
class Trainer;
}

namespace levin::cli {

/// The configuration of a run. Before anything of the user's is read, ranks that it may start are given their beginning.
RunConfig begin_run(const CommandLine& line);

/// What a command that does not train leaves out of a fit.
void leave_out_reports(TrainerOptions& options);

/// The configuration's `optimizer:` and `lr_scheduler:` replace the module's own.
void override_optimizers(Trainer& trainer, const RunConfig& config);

/// `seed_everything:`
void seed(const RunConfig& config);

}  // namespace levin::cli
