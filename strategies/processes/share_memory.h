#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/processes/shared_file.h"

namespace levin {

/// Memory that all ranks of the group have, all of one host: rank 0 makes it, and the others open what it has. Nothing on every
/// rank when one of them fails, and `failure` then says which, and why. Ranks: all. Throws as ControlGroup::all_gather() does.
std::optional<SharedFile> share_memory(ControlGroup& group, std::size_t bytes, std::string& failure);

}  // namespace levin
