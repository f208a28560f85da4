#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "levin/strategies/processes/run_segment.h"

namespace levin {

/// The ranks that a launcher has started, and the memory it shares with them.
struct StartedRanks {
  std::shared_ptr<RunSegment> segment;
  std::vector<pid_t> processes;  ///< by rank
};

/// Starts this program `ranks` times with its own arguments: by the ForkServer where one runs, otherwise anew from its file.
/// The processes are killed by the kernel when the calling thread ends. Throws IoError, with no process left behind.
StartedRanks start_ranks(int ranks);

}  // namespace levin
