#pragma once

#include <filesystem>
#include <vector>

#include "levin/cli/runs/run_folder.h"

namespace levin::cli {

/// The *.ckpt files of a folder in the order of their numbers, each with the metric that it was chosen by and the value that
/// this had then. A file that was not chosen has none, such as last.ckpt and what an error left, and so has one that cannot be
/// read; a missing folder has none.
std::vector<RunCheckpoint> read_checkpoints(const std::filesystem::path& folder);

}  // namespace levin::cli
