#include "levin/core/protocol/boundary.h"

namespace levin {

const char* boundary_kind_name(BoundaryKind kind) {
  switch (kind) {
    case BoundaryKind::kSetup:
      return "setup";
    case BoundaryKind::kEpochStart:
      return "epoch_start";
    case BoundaryKind::kBatch:
      return "batch";
    case BoundaryKind::kTrainStep:
      return "train_step";
    case BoundaryKind::kEpochReached:
      return "epoch_reached";
    case BoundaryKind::kEpochEnd:
      return "epoch_end";
    case BoundaryKind::kEvaluationEnd:
      return "evaluation_end";
    case BoundaryKind::kCheckpoint:
      return "checkpoint";
    case BoundaryKind::kEnd:
      return "end";
  }
  return "unknown";
}

}  // namespace levin
