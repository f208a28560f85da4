#pragma once

#include <filesystem>
#include <vector>

#include "levin/cli/runs/run_folder.h"

namespace levin::cli {

/// The *.ckpt files of a folder in the order of their numbers, each with the metric that its manifest names. A file that cannot
/// be read is one without a metric; a folder that is not there has none.
std::vector<RunCheckpoint> read_checkpoints(const std::filesystem::path& folder);

}  // namespace levin::cli
