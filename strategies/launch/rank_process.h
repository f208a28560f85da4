#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <vector>

#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/launch/rank_setup.h"

namespace levin {

/// The ranks that a launcher has started, and the memory it shares with them.
struct StartedRanks {
  std::shared_ptr<RunSegment> segment;
  std::vector<pid_t> processes;  ///< by local rank
};

/// Starts this program once for each place with its own arguments: by the ForkServer where one runs, otherwise anew from its
/// file. `places`: of this host, by local rank. `notes`: a file that ranks inherit, see AttemptNotes. The processes are killed
/// by the kernel when the calling thread ends. Throws IoError, with no process left behind.
StartedRanks start_ranks(const std::vector<RankPlace>& places, std::optional<int> notes);

}  // namespace levin
