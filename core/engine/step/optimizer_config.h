#pragma once

#include <memory>

#include "levin/core/engine/parts/run_setup.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/options/value.h"
#include "levin/core/trainer_options.h"

namespace levin {

class OptimizerSetups;
class TrainingLength;

/// Optimizer and scheduler made by name, in place of the module's configure_optimizers.
struct OptimizerOverride {
  std::shared_ptr<OptimizerFactory> optimizer;  ///< null: the module's own
  std::shared_ptr<LrSchedulerFactory> scheduler;
  Value scheduler_settings;  ///< marked with the place of the scheduler
};

/// The optimizers of a fit: made by name when the run's configuration says so, else by the module's configure_optimizers.
/// Ranks: all, since a scheduler that is made by name may ask for the length of training.
OptimizerSetups make_optimizers(Module& module, const OptimizerOverride& override_by_name, const TrainingLength& length);

/// Checks what configure_optimizers gave and takes it among the parts. Throws MisuseError on what cannot work: several
/// optimizers under automatic optimization, a scheduler without its monitor or for an optimizer that is not among them.
void take_optimizers(const OptimizerSetups& setups, const TrainerOptions& options, RunParts& parts);

}  // namespace levin
