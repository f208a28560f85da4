#pragma once

#include "levin/core/config/value.h"

namespace levin::cli {

/// JSON Schema (draft 2020-12) of the YAML: every section, and every class that is registered now with its init_args.
Value config_schema();

}  // namespace levin::cli
