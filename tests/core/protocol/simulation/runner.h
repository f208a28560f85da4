#pragma once

#include <string>

#include "core/protocol/simulation/program.h"
#include "support/simulated_ranks.h"

namespace levin::testing {

/// Runs a program on real MetricStores over simulated ranks, and compares everything with the oracle. Gives "" when all is as
/// it must be, else what is not, with the seed.
std::string run_and_compare(SimulatedRanks& ranks, const Program& program);

/// The program as a text for people.
std::string describe(const Program& program);

}  // namespace levin::testing
