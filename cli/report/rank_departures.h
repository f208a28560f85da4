#pragma once

#include <string>
#include <vector>

#include "levin/cli/report/run_metrics.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// Messages about ranks that differ from the others, the strongest first: "rank 2 departs in train_loss: 1.92 on average,
/// the others 0.31 to 0.33". Of three ranks or more one departs that is farther from the others than three times what they
/// differ among themselves, and than a twentieth of the value; of two both are reported where they are a quarter apart.
std::vector<std::string> departures_in_metrics(const RunMetrics& metrics);

/// A message about the rank that the others waited for, where that was half as long again as for any other one: of the tables
/// of profile_tables(). Empty where there is none, or no such table.
std::string departure_in_waits(const Value& profiles);

}  // namespace levin::cli
