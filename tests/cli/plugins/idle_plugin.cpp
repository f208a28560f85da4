// A plug-in that knows levin and forgot to register its class.
#include "levin/core/logger.h"
#include "levin/core/options/registry.h"

struct Idle : levin::Logger {};
