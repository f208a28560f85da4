#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "levin/core/protocol/control_group.h"

namespace levin::testing {

/// How a simulated run ended.
struct SimulationResult {
  std::vector<std::exception_ptr> errors;  ///< by rank; null if the rank ended without one
  /// Ranks waited for others that had ended normally: with real processes a hang.
  bool hung = false;
  /// Ranks reached an exchange with different calls, or different numbers of bytes.
  bool calls_differed = false;
  std::int64_t exchanges = 0;  ///< completed
};

/// Runs ranks as threads, one at a time: whenever a rank waits, the seed decides which one continues. The same seed gives the
/// same order. A rank that waits for one that has ended gets a DesyncError, so that nothing hangs; so do all ranks in different
/// calls, except all_gathers of equally many bytes. The next run reuses the threads. Threading: one run at a time.
class SimulatedRanks {
 public:
  SimulatedRanks();
  ~SimulatedRanks();
  SimulationResult run(int ranks, std::uint64_t seed, const std::function<void(ControlGroup&)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace levin::testing
