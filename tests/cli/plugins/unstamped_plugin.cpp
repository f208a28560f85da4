// A plug-in from before plug-ins carried stamps. It leaves a trace when any of its code runs.
#include <cstdlib>

#include "levin/core/config/registry.h"
#include "levin/core/logger.h"

namespace {

struct Unstamped : levin::Logger {};

[[maybe_unused]] const int kRan = ::setenv("LEVIN_UNSTAMPED_PLUGIN_RAN", "1", 1);

LEVIN_REGISTER_LOGGER(Unstamped, "Comes from a plug-in without a stamp");

}  // namespace
