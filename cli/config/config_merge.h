#pragma once

#include <string>
#include <vector>

#include "levin/cli/config/override.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// `base` with everything that `overlay` says. Maps merge key by key, other values and lists replace earlier ones. Where a
/// class is named (`class_path`, or its name alone) that differs from the one in `base`, only those init_args stay that the new
/// class has too, as in LightningCLI. A null section over a map changes nothing.
Value merged(Value base, const Value& overlay);

/// True for a map with class_path or init_args.
bool names_class(const Value& value);
/// A class that is named alone, as a map with its class_path.
Value class_spec(const Value& name);
/// True for a part of a key that is about the specification of a class itself, as against its init_args.
bool is_spec_key(const std::vector<std::string>& key, const std::string& part);

/// Puts an override into a configuration. A key leads through maps; through a class to its init_args (or class_path and
/// init_args when it names them); through a list to the element of that number, else to its last element.
/// Throws ConfigError when the key leads nowhere, or deeper than ConfigSize permits.
void apply_override(Value& config, const Override& given);

}  // namespace levin::cli
