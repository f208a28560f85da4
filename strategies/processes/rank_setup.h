#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace levin {

/// Open files that ranks inherit.
struct InheritedFiles {
  int segment = -1;
  int store = -1;             ///< the rank's end of the StoreSockets
  std::optional<int> inputs;  ///< see RunInputs
};

/// What the environment of a rank of `launcher` adds to or replaces in this process's: "NAME=value" each.
std::vector<std::string> rank_environment(int rank, int ranks, pid_t launcher, const InheritedFiles& files);

/// Makes the calling process, a child of `launcher`, end with it, gives it a process group of its own and an empty standard
/// input. False when the launcher is gone already. Threading: async-signal-safe.
bool tie_to_launcher(pid_t launcher) noexcept;

}  // namespace levin
