// Files that rank 0 cannot write: an error on every rank, not a run without its files, nor a wait for rank 0.
#include <fstream>

#include "distributed/matrix/scenario.h"
#include "distributed/one_weight.h"
#include "levin/callbacks/model_checkpoint.h"

namespace levin::test {
namespace {

/// A folder that cannot be made, since its parent is a file.
std::filesystem::path impossible_folder(const Scenario& scenario) {
  const std::filesystem::path file = scenario.folder() / "file";
  std::ofstream(file, std::ios::app) << "no folder";
  return file / "below";
}

/// parameters: what cannot be written: "checkpoint" or "log".
void unwritable(Scenario& scenario) {
  TrainerOptions options = scenario.options();
  if (scenario.text(0) == "checkpoint") {
    options.enable_checkpointing = true;
    ModelCheckpointOptions saving;
    saving.dirpath = impossible_folder(scenario);
    options.callbacks = {std::make_shared<ModelCheckpoint>(saving)};
  } else {
    options.logger = true;
    options.default_root_dir = impossible_folder(scenario);
  }
  Trainer trainer(options);
  OneWeight module;
  trainer.fit(module, numbers(3, trainer.rank()));
}

}  // namespace

void add_writing_scenarios(Scenarios& scenarios) { scenarios.insert({{"unwritable", unwritable}}); }

}  // namespace levin::test
