// A plug-in that knows levin and forgot to register its class.
#include "levin/core/config/registry.h"
#include "levin/core/logger.h"

struct Idle : levin::Logger {};
