#pragma once

#include <string>

#include "levin/core/options/value.h"

namespace levin::cli {

/// `base` with everything that `overlay` says. Maps merge key by key, other values and lists replace what was there. Where a
/// class is named (`class_path`, or its name alone) that differs from the one in `base`, only those init_args stay that the new
/// class has too, as in LightningCLI. A null section over a map changes nothing.
Value merged(Value base, const Value& overlay);

/// One `--key=value` of the command line.
struct Override {
  std::string key;      ///< "trainer.callbacks.patience"
  std::string text;     ///< read as YAML
  bool append = false;  ///< `--trainer.callbacks+=EarlyStopping`
  /// "command line: --trainer.callbacks+"; a long key is cut.
  std::string name() const;
};

/// Puts an override into a configuration. A key leads through maps; through a class to its init_args (or class_path and
/// init_args when it names them); through a list to the element of that number, else to its last element.
/// Throws ConfigError when the key leads nowhere, has more than 1,000 characters, or nests the value deeper than 100 levels.
void apply_override(Value& config, const Override& given);

}  // namespace levin::cli
