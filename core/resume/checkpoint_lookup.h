#pragma once

#include <filesystem>
#include <string>

namespace levin {

/// Finds what "best" or "last" means when this process has not trained itself: in the newest run below `root` that has
/// checkpoints, the one saved last, or the best one that it names. Throws ConfigError when there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& root, const std::string& alias);

}  // namespace levin
