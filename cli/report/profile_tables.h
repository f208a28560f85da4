#pragma once

#include <filesystem>
#include <string_view>

#include "levin/core/config/value.h"

namespace levin::cli {

/// The tables of a text as the simple profiler writes it: a list of maps {"columns": ["action", "calls", …], "rows":
/// [["all", "", …], …]}. Each has at most `most_rows` rows.
Value tables_of_text(std::string_view text, std::size_t most_rows);

/// Those of each file "fit-profile-0.txt" and so on in a run's folder, whatever the profiler's `filename` is: a list of maps
/// {"name": "fit-profile", "rank": 0, "tables": […]}, by name and rank. The longest tables, and the ranks, are cut.
Value profile_tables(const std::filesystem::path& run);

}  // namespace levin::cli
