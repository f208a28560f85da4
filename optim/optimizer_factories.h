#pragma once

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/options/registry.h"

namespace levin {

/// Adds SGD, Adam, AdamW, RMSprop, Adagrad and LBFGS, with PyTorch's arguments and defaults.
void add_optimizer_factories(Registry<OptimizerFactory>& registry);

}  // namespace levin
