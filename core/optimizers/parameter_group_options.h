#pragma once

#include "levin/core/optimizers/parameter_groups.h"

namespace levin {

/// The options of a group: `init_args` with the group's own in place of theirs. All have a place, for errors.
Value options_of_group(const Value& init_args, const ParameterGroup& group);

}  // namespace levin
