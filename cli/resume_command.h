#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::cli {

/// The command line to type so that a run goes on from a checkpoint: the words of the one that started it, quoted for a shell,
/// with this `--ckpt_path` in place of the one that they may have, and without weights to begin with.
std::string resume_command(const std::vector<std::string>& words, const std::filesystem::path& checkpoint,
                           bool has_init_from = false);

}  // namespace levin::cli
