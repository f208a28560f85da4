#pragma once

#include <vector>

#include "levin/cli/runs/run_folder.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// The sweeps that the runs are trials of, as the page's script reads them: a list of maps {"folder", "monitor", "mode",
/// "keys", "trials"}, the trials ranked, the best first, each {"name", "run", "status", "values", "score", "seconds"}; "run" is
/// the index of its run among `runs`, null where that is not shown, "score" null where there is none, and "values" stand in the
/// order of "keys".
Value sweep_values(const std::vector<RunFolder>& runs);

}  // namespace levin::cli
