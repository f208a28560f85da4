#pragma once

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/options/registry.h"

namespace levin {

/// Adds all optimizers, with PyTorch's arguments and defaults.
void add_optimizer_factories(Registry<OptimizerFactory>& registry);

}  // namespace levin
