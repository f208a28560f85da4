#pragma once

#include "levin/core/config/value.h"

namespace levin {

/// The tree with kMask (`core/base/secrets.h`) in place of secrets: values under a key that names one, whatever they hold, and
/// what is secret within texts.
Value masked(Value value);

/// Throws ConfigError, with its place, for a value that masked() has put there: a file that levin wrote is read again.
void refuse_masked(const Value& value);

}  // namespace levin
