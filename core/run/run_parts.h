#pragma once

#include <memory>
#include <vector>

#include "levin/core/fwd.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/options/value.h"

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

/// What module and data were made with: maps under `model` and `data`, their sections in YAML, so that both may have an option
/// of one name. One that says nothing has an empty map.
Value hyperparams_of(const RunParts& parts);

}  // namespace levin
