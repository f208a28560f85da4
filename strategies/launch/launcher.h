#pragma once

#include <optional>

#include "levin/strategies/failure/failure.h"

namespace levin {

/// What a launcher starts on its host.
struct LaunchPlan {
  int local_ranks = 1;
  int host = 0;  ///< of `hosts`, each with a launcher and the same number of ranks
  int hosts = 1;
  int max_restarts = 0;              ///< after failures that may not recur
  std::optional<int> min_devices{};  ///< a restart may use fewer devices, at least so many; unset: all
  int call = 0;                      ///< see LaunchPermit
};

/// How a run has ended.
struct RunEnd {
  int status = 0;
  std::optional<FailureRecord> failure{};
};

/// Supervises copies of this program until all of them have ended; see launch_ranks(). Restores signals and what else it
/// changes.
RunEnd run_ranks(const LaunchPlan& plan);

/// Turns the calling process into the supervisor of copies of this program, started with the same arguments, and never returns:
/// it ends with the status of the run, which is 0 when every rank's is, and otherwise that of the first rank that failed, 128 +
/// n for a death by signal n. docs/internals/processes.md describes the ranks' environment and life. Throws IoError when ranks
/// cannot be started.
[[noreturn]] void launch_ranks(const LaunchPlan& plan);

}  // namespace levin
