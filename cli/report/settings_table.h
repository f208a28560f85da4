#pragma once

#include <vector>

#include "levin/core/config/value.h"

namespace levin::cli {

/// Settings of runs side by side: a list of maps {"key": "trainer.max_epochs", "differs": true, "values": ["5", "10", null]},
/// one value a run, null where it has none. The order is that of the first run that has a key.
/// `only_differing`: without the rows in which all runs agree.
Value settings_table(const std::vector<const Value*>& settings, bool only_differing);

}  // namespace levin::cli
