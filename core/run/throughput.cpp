#include "levin/core/run/throughput.h"

#include "levin/core/batch.h"
#include "levin/core/loops/step_votes.h"
#include "levin/core/run/runtime.h"

namespace levin {

std::optional<std::int64_t> samples_of_all_ranks(const Trainer& trainer, const Batch& batch) {
  const Trainer::Runtime& runtime = trainer.runtime();
  if (runtime.world_size() == 1) return batch.batch_size();
  const bool weights_are_samples = runtime.state.full_batch_size > 0;
  if (!weights_are_samples || runtime.step_votes == nullptr || !runtime.module->automatic_optimization()) return std::nullopt;
  return runtime.step_votes->reduced() ? runtime.step_votes->agreed().gradient_weight : 0;
}

const EvaluationTotals& evaluation_of_all_ranks(const Trainer& trainer) { return trainer.runtime().state.evaluation_totals; }

}  // namespace levin
