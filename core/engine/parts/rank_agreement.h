#pragma once

#include <filesystem>
#include <string>

#include "levin/core/engine/parts/run_setup.h"
#include "levin/core/trainer.h"

namespace levin {

/// Compares how the run was set up over ranks: the Trainer's options, callbacks and loggers with their settings, and the
/// hyper-parameters of module and data. Ranks: all. Throws ConfigError on every rank, naming the first difference: it would
/// surface later as a hang or a wrong average.
void check_same_setup(const RunSetup& setup, const RunParts& parts, const RunOptions& run, Stage stage);

/// Compares the file that ranks have opened to go on from: each reads its own, and hosts may have another one under its name.
/// Ranks: all. Throws ConfigError on every rank, which names ranks and hosts.
void check_same_checkpoint(const RunSetup& setup, const std::filesystem::path& file);

/// Compares the optimizers that configure_optimizers gave, as check_same_setup() does: with different ones the weights of ranks
/// would drift apart.
void check_same_optimizers(const RunSetup& setup, const RunParts& parts);

/// The same once more, after parameters have changed while training runs. Throws DesyncError likewise.
void check_same_changes_of_optimizers(const RunSetup& setup, const RunParts& parts);

}  // namespace levin
