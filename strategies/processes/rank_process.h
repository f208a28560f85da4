#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/strategies/processes/run_segment.h"

namespace levin {

/// The ranks that a launcher has started, and the memory it shares with them.
struct StartedRanks {
  std::shared_ptr<RunSegment> segment;
  std::vector<pid_t> processes;  ///< by rank
};

/// Starts this program `ranks` times with its own arguments. The processes are killed by the kernel when the calling thread
/// ends. Throws IoError, with no process left behind.
StartedRanks start_ranks(int ranks);

/// Open files that ranks inherit.
struct InheritedFiles {
  int segment = -1;
  int store = -1;             ///< the rank's end of the StoreSockets
  std::optional<int> inputs;  ///< see RunInputs
};

/// What a rank's environment adds to or replaces in this process's: "NAME=value" each.
std::vector<std::string> rank_environment(int rank, int ranks, const InheritedFiles& files);

}  // namespace levin
