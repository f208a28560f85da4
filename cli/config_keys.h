#pragma once

#include <string>
#include <vector>

#include "levin/core/options/options.h"

namespace levin::cli {

/// True when a name is one of these.
bool is_among(const std::vector<std::string>& names, const std::string& name);
/// The names of options.
std::vector<std::string> names_of(const std::vector<OptionInfo>& options);

/// The keys, at most four, that `name` may have been meant for where it leads nowhere, such as trainer.max_epochs for
/// max_epochs: those whose last part it is, or else is a slip of, or is a word of. `config` says which classes there are.
std::vector<std::string> keys_meant_by(const std::string& name, const Value& config);

/// Takes the keys out of `map` that are none of its `own`, nor slips of these, but lead somewhere in `config`, and throws
/// ConfigError for them, which says where.
void take_misplaced(Value& map, const std::vector<std::string>& own, const Value& config);

}  // namespace levin::cli
