#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/base/format.h"
#include "levin/core/trainer.h"

namespace levin {

/// Where a profiler writes what it has measured on this rank: `{folder}/{stage}-{filename}-{rank}{ending}`, fit being a stage.
/// `folder`: unset is the run's.
inline std::filesystem::path profile_file(const Trainer& trainer, Stage stage,
                                          const std::optional<std::filesystem::path>& folder, const std::string& filename,
                                          const std::string& ending) {
  const std::filesystem::path place = folder ? *folder : trainer.log_dir();
  return place / format("{}-{}-{}{}", stage == Stage::kTrain ? "fit" : stage_name(stage), filename, trainer.rank(), ending);
}

}  // namespace levin
