#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/export.h"
#include "levin/core/fwd.h"

namespace levin {

/// Training samples that all ranks together finished with the batch that has just ended; nullopt when that is not known: ranks
/// without one batch size for all, or manual optimization on several ranks. `batch` is this rank's. Called: in
/// on_train_batch_end. It only reads what came with the gradients: with accumulation the samples of several batches come with
/// the last one.
LEVIN_API std::optional<std::int64_t> samples_of_all_ranks(const Trainer& trainer, const Batch& batch);

/// What all ranks together did in an evaluation.
struct LEVIN_API EvaluationTotals {
  std::int64_t batches = 0;  ///< of the rank that had most
  std::int64_t samples = 0;  ///< of all ranks
};

/// What all ranks did in the evaluation that is about to end. Called: in on_*_epoch_end and on_*_end of an evaluation. It only
/// reads what came with the boundary before them.
LEVIN_API const EvaluationTotals& evaluation_of_all_ranks(const Trainer& trainer);

}  // namespace levin
