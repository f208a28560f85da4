#pragma once

#include <filesystem>

namespace levin {

struct RunOutcome;

/// Writes `run.json` in a run's folder, which tells other programs how the run is: its status "running", its start, and the
/// process, the host and the number of ranks. A test of this process that follows its fit goes on with the fit's. Throws:
/// IoError.
void note_start(const std::filesystem::path& folder, int ranks);

/// Adds how the run has ended, and after how many seconds. Throws: IoError.
void note_end(const std::filesystem::path& folder, const RunOutcome& outcome);

/// Removes the folder, where this file is all that is in it. True when it has.
bool remove_unused(const std::filesystem::path& folder);

}  // namespace levin
