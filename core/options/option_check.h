#pragma once

#include "levin/core/options/value.h"

namespace levin::detail {

/// Throws ConfigError with the value's mark when it is a text with a NUL character: the system ends paths and names there.
/// read_option() asks for every option; what is used before options are read asks itself.
void check_text(const Value& value);

}  // namespace levin::detail
