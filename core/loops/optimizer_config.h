#pragma once

#include "levin/core/run/runtime.h"

namespace levin {

/// The optimizers of a fit: made by name when the run's configuration says so, else by the module's configure_optimizers.
OptimizerSetups make_optimizers(Trainer::Runtime& runtime);

/// Checks what configure_optimizers gave and hands it to the runtime. Throws MisuseError on what cannot work: several
/// optimizers under automatic optimization, a scheduler without its monitor, an unknown interval.
void take_optimizers(Trainer::Runtime& runtime, const OptimizerSetups& setups);

/// The module's and the data module's hyper-parameters in one map. Throws MisuseError when both have a key with different
/// values.
Value merged_hyperparams(const Trainer::Runtime& runtime);

}  // namespace levin
