#pragma once

#include <filesystem>
#include <functional>

#include "levin/cli/config/command_line.h"
#include "levin/cli/config/run_config.h"
#include "levin/core/trainer.h"

namespace levin::cli {

/// The configuration of a run. Before anything of the user's is read, ranks that it may start are given their beginning.
RunConfig begin_run(const CommandLine& line);

/// Says what a configuration was made of, and what of it users may not expect. Rank: 0.
void announce(const CommandLine& line, const RunConfig& config);

/// The complete configuration is saved in the run's folder, and `saved` gets the file.
void save_config_of(Trainer& trainer, const RunConfig& config,
                    const std::function<void(const std::filesystem::path&)>& saved = nullptr);

/// Where a run starts, as the configuration says.
RunOptions run_options(const RunConfig& config);

/// What a command that does not train leaves out of a fit.
void leave_out_reports(TrainerOptions& options);

/// The configuration's `optimizer:` and `lr_scheduler:` replace the module's own.
void override_optimizers(Trainer& trainer, const RunConfig& config);

/// `seed_everything:`
void seed(const RunConfig& config);

}  // namespace levin::cli
