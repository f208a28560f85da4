#pragma once

#include <vector>

#include "levin/core/protocol/frame.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {

/// Exchanges reports of ranks, with their work (WorkMeter::take()), at each row of training steps. Threading: training's.
class RankReports {
 public:
  /// This rank's numbers, its memory among them, which is read once a second at most.
  BoundaryPayload payload(BoundaryPayload work, const Strategy& strategy);
  /// The reports of all ranks.
  void take(const std::vector<BoundaryPayload>& by_rank);
  const std::vector<RankReport>& by_rank() const { return by_rank_; }

 private:
  double memory_since_ = 0;  ///< seconds of a clock
  std::int64_t memory_ = 0;
  std::int64_t device_memory_ = 0;
  std::vector<RankReport> by_rank_;
};

}  // namespace levin
