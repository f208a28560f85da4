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
  std::vector<std::exception_ptr> errors;  ///< by rank; null where the rank ended without one
  /// Ranks waited for others that had already ended in good order: with real processes a hang.
  bool hung = false;
  /// Ranks came to one exchange with different calls, or different numbers of bytes.
  bool calls_differed = false;
  std::int64_t exchanges = 0;  ///< completed
};

/// Runs ranks as threads, one at a time: whenever a rank waits, the seed decides who goes on. The same seed gives the same
/// order. A rank that waits for one that has ended gets a DesyncError, so that nothing ever hangs, and so do all
/// where ranks are in different calls, but for all_gathers of as many bytes. Threads are kept for the
/// next run. Threading: one run at a time.
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
