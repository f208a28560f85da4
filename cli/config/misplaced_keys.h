#pragma once

#include <string>
#include <vector>

#include "levin/core/config/value.h"

namespace levin::cli {

/// The keys, at most four, that `name` may have been meant for where it leads nowhere, such as trainer.max_epochs for
/// max_epochs: those whose last part it is, or else is a slip of, or is a word of. `config` says which classes there are.
std::vector<std::string> suggested_keys(const std::string& name, const Value& config);

/// Takes keys out of `map` that are neither of its `own` keys nor slips of one, but lead elsewhere in `config`. ConfigError
/// says where.
void remove_misplaced(Value& map, const std::vector<std::string>& own, const Value& config);

}  // namespace levin::cli
