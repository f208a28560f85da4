#pragma once

#include "levin/core/config/value.h"

namespace levin {

/// The tree with secrets replaced by kMask (`core/base/secrets.h`): all values under a key that names a secret, and secrets
/// within texts.
Value masked(Value value);

/// Throws ConfigError, with its mark, for a value that masked() has written: a file of levin's is read again.
void refuse_masked(const Value& value);

}  // namespace levin
