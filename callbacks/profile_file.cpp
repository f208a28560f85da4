#include "levin/callbacks/profile_file.h"

#include "levin/core/base/format.h"
#include "levin/core/trainer.h"

namespace levin {

std::filesystem::path profile_file(const Trainer& trainer, Stage stage, const std::optional<std::filesystem::path>& folder,
                                   const std::string& filename, const std::string& ending) {
  const std::filesystem::path place = folder ? *folder : trainer.log_dir();
  return place / format("{}-{}-{}{}", stage == Stage::kTrain ? "fit" : stage_name(stage), filename, trainer.rank(), ending);
}

}  // namespace levin
