#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "levin/cli/doctor/finding.h"

namespace levin::cli {

/// A folder that levin writes to: its free space, how fast a file of 4 MB comes to the disk, and whether a file can take
/// another one's place and be mapped into memory.
Findings folder_findings(const std::string& what, const std::filesystem::path& folder);

/// /dev/shm, of which so many bytes are free.
Findings shared_memory_findings(std::uint64_t capacity, std::uint64_t available);

}  // namespace levin::cli
