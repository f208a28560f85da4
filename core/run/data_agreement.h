#pragma once

#include <string>

#include "levin/core/data_module.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

/// Compares the data that ranks share: each reads its part of a DataLoader's samples, so that all must have as many. With other
/// numbers samples would be left out or seen twice, without a word. Loaders of a user's own divide their data themselves, and
/// are not compared. `what` names the loaders ("training").
/// Ranks: all, with one collective where ranks agree. Throws MisuseError on every rank, naming ranks and numbers.
void check_same_data(ControlGroup& group, const std::string& what, const LoaderList& loaders);

}  // namespace levin
