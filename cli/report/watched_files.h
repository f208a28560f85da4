#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "levin/cli/runs/run_folder.h"

namespace levin::cli {

/// When each file that a report may show was written, and how long it is.
using FileStates = std::map<std::filesystem::path, std::pair<std::filesystem::file_time_type, std::uintmax_t>>;

/// The files of runs that a report has to follow: not the report itself, which may lie among them, nor another page, which
/// another process may write again whenever this one changes.
FileStates watched_files(const std::vector<RunFolder>& runs, const std::filesystem::path& report);

}  // namespace levin::cli
