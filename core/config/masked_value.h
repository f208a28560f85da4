#pragma once

#include "levin/core/config/value.h"

namespace levin {

/// The tree with secrets replaced by kMask (`core/base/secrets.h`): all values under a key that names a secret, and secrets
/// within texts.
Value masked(Value value);

/// Throws ConfigError, with its place, for a value that masked() has put there: a file that levin wrote is read again.
void refuse_masked(const Value& value);

}  // namespace levin
