#include "levin/core/callback.h"

#include "levin/core/batch.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/engine/step/step_votes.h"

namespace levin {

std::optional<std::int64_t> samples_of_all_ranks(const Trainer& trainer, const Batch& batch) {
  const TrainerState& run = TrainerState::of(trainer);
  if (run.world_size() == 1) return batch.batch_size();
  if (run.step_votes == nullptr) return std::nullopt;
  const bool reduces_gradients = run.module().automatic_optimization() && !run.parts.optimizers.empty();
  if (!reduces_gradients) return run.progress.batch.samples_of_all;
  const bool weights_are_samples = run.accumulation.full_batch_size > 0;
  if (!weights_are_samples) return std::nullopt;
  return run.step_votes->reduced() ? run.step_votes->agreed().gradient_weight : 0;
}

const EvaluationTotals& evaluation_of_all_ranks(const Trainer& trainer) {
  return TrainerState::of(trainer).progress.evaluation_totals;
}

}  // namespace levin
