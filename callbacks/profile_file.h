#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/base/hook.h"

namespace levin {

class Trainer;

/// Where a profiler writes what it has measured on this rank: `{folder}/{stage}-{filename}-{rank}{ending}`, fit being a stage.
/// `folder`: unset is the run's.
std::filesystem::path profile_file(const Trainer& trainer, Stage stage, const std::optional<std::filesystem::path>& folder,
                                   const std::string& filename, const std::string& ending);

}  // namespace levin
