#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

/// Open files that ranks inherit.
struct InheritedFiles {
  int segment = -1;
  std::optional<int> store{};   ///< the rank's end of the StoreSockets; none where ranks of several hosts meet at a port
  std::optional<int> notes{};   ///< see AttemptNotes; none where nothing is started again
  std::optional<int> inputs{};  ///< see RunInputs
};

/// What the environment of a rank of `launcher` adds to or replaces in this process's: "NAME=value" each, and "NAME" alone for
/// what it lacks.
std::vector<std::string> rank_environment(const RankPlace& place, pid_t launcher, const InheritedFiles& files);

/// Makes the calling process, a child of `launcher`, end with it, gives it a process group of its own and an empty standard
/// input. False when the launcher is gone already. Threading: async-signal-safe.
bool tie_to_launcher(pid_t launcher) noexcept;

}  // namespace levin
