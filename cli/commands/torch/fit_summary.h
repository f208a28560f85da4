#pragma once

#include <filesystem>
#include <string>

#include "levin/cli/config/command_line.h"

namespace levin {
class Trainer;
}

namespace levin::cli {

/// The summary of a fit that has ended: how long it took, where it wrote, which checkpoint is the best one, with
/// its score, and the command to test that. `config`: where the run's configuration was saved; empty: nowhere. Ranks: 0.
std::string fit_summary(const Trainer& trainer, const CommandLine& line, const std::filesystem::path& config, double seconds);

}  // namespace levin::cli
