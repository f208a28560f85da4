#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "levin/core/base/hook.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// Points of the loop that every rank reaches in the same order.
enum class BoundaryKind : std::uint8_t {
  kSetup,          ///< start of an entry point: configuration and parameters are compared
  kEpochStart,     ///< lengths of the loaders are agreed; after the hooks of an epoch's start, whether parameters have changed,
                   ///< and what batch a rank begins with
  kBatch,          ///< before a batch, when lengths are unknown and gradients accumulate: who has a batch
  kTrainStep,      ///< a training step on which step metrics are due
  kDecision,       ///< something is decided on a metric between the boundaries of steps and epochs: step values, and no row
  kEpochReached,   ///< the last batch of an epoch is done, before the epoch-end hooks
  kEpochEnd,       ///< the epoch-end hooks of callbacks and module are done, before monitoring callbacks and loggers
  kEvaluationEnd,  ///< an evaluation and its monitors are done: votes count at once
  kCheckpoint,     ///< a checkpoint is written; no metrics, so that saving changes nothing
  kEnd             ///< end of an entry point
};

/// Which boundary this is. Ranks that meet with different ones have diverged: DesyncError on all, naming both.
struct Boundary {
  BoundaryKind kind = BoundaryKind::kSetup;
  Stage stage = Stage::kTrain;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

/// Numbers that ranks tell one another at a boundary (batches of a loader, say); their meaning belongs to the boundary's kind.
using BoundaryPayload = std::array<std::int64_t, 4>;

/// What every rank knows after a boundary. `votes`, `rank_votes`, `payloads` and `rank_rows` are identical on all ranks.
struct BoundaryOutcome {
  Votes votes;                            ///< merged over ranks
  std::vector<Votes> rank_votes;          ///< by rank
  std::vector<BoundaryPayload> payloads;  ///< by rank
  MetricMap logger_row;                   ///< values to be written by rank 0's loggers, per_rank columns included
  MetricMap local_row;                    ///< this rank's own unreduced values of the same keys, for loggers of every rank
  std::vector<MetricMap> rank_rows;       ///< by rank: each rank's unreduced values of the same keys
};

}  // namespace levin
