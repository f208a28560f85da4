#pragma once

#include <string>

#include "levin/cli/sweep/sweep_state.h"

namespace levin::cli {

/// The results of trials, the best first: a table for people.
std::string results_table(const SweepState& sweep);
/// The same as CSV.
std::string results_csv(const SweepState& sweep);

}  // namespace levin::cli
