#pragma once

#include <string>

#include "levin/core/options/value.h"

namespace levin::cli {

/// JSON Schema (draft 2020-12) of the YAML: every section, and every class that is registered now with its init_args.
Value config_schema();

/// A value as indented JSON text, the order of keys kept. Infinite and undefined floats become null, as JSON has none.
std::string json_text(const Value& value);

}  // namespace levin::cli
