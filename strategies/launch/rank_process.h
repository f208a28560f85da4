#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "levin/strategies/host/run_segment.h"

namespace levin {

/// One rank as its launcher places it. Plain bytes: the ForkServer is sent one.
struct RankPlace {
  std::int32_t local_rank = 0;
  std::int32_t local_ranks = 1;
  std::int32_t host = 0;
  std::int32_t hosts = 1;
  std::int32_t device = 0;    ///< which of the devices of this host: its local rank's, unless devices are gone
  std::int32_t restarts = 0;  ///< how often the run has been started again
  std::int32_t max_restarts = 0;
  std::int32_t call = 0;  ///< see LaunchPermit

  int rank() const { return host * local_ranks + local_rank; }
  int world_size() const { return hosts * local_ranks; }
};

/// Open files that ranks inherit; -1 is none.
struct InheritedFiles {
  int segment = -1;
  int store = -1;   ///< see inherited_address(); none where ranks of several hosts meet at a port
  int inputs = -1;  ///< see RunInputs
};

/// What the environment of a rank of `launcher` adds to or replaces in this process's: "NAME=value" each, and "NAME" alone for
/// what it lacks.
std::vector<std::string> rank_environment(const RankPlace& place, pid_t launcher, const InheritedFiles& files);

/// Makes the calling process, a child of `launcher`, end with it, gives it a process group of its own and an empty standard
/// input. False when the launcher is gone already. Threading: async-signal-safe.
bool tie_to_launcher(pid_t launcher) noexcept;

/// The ranks that a launcher has started, and the memory it shares with them.
struct StartedRanks {
  std::shared_ptr<RunSegment> segment;
  std::vector<pid_t> processes;  ///< by local rank
};

/// Starts this program once for each place with its own arguments: by the ForkServer where one runs, otherwise anew from its
/// file. `places`: of this host, by local rank. `kept`: what an earlier attempt has kept. The processes are killed by the
/// kernel when the calling thread ends. Throws IoError, with no process left behind.
StartedRanks start_ranks(const std::vector<RankPlace>& places, std::string_view kept = {});

}  // namespace levin
