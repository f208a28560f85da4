#pragma once

#include <memory>
#include <vector>

#include "levin/core/fwd.h"
#include "levin/core/optimizers/lr_scheduler.h"

namespace levin {

/// The objects of the user's that take part in a run. The entry point sets them; they stay, but for the data module, until the
/// next one.
struct RunParts {
  Module* module = nullptr;
  std::vector<const Module*> modules_below;  ///< those below `module` that are tied to this run
  DataModule* data = nullptr;
  std::vector<std::shared_ptr<Callback>> callbacks;  ///< in the order in which hooks run
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<SchedulerConfig> schedulers;
};

}  // namespace levin
