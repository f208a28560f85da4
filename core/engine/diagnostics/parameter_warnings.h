#pragma once

#include "levin/core/engine/parts/run_setup.h"

namespace levin {

/// Warns on rank 0, once each, of parameters that training leaves as they are without a word: a module without any that
/// requires a gradient, those that require one and are in no optimizer, an optimizer of none of the module's parameters, and
/// one that has parameters of which the module knows nothing.
void warn_of_idle_parameters(const RunParts& parts);

}  // namespace levin
