#include "levin/core/engine/loops/fit_validation.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/process.h"
#include "levin/core/engine/loops/training_data.h"
#include "levin/core/engine/parts/progress.h"
#include "levin/core/random/rng_state.h"

namespace levin {

FitValidation::FitValidation(TrainerState& run, const Precision& precision, DataSource& source)
    : run_(run), precision_(precision), source_(source), hooks_(run.hooks) {}

void FitValidation::set_up() {
  run_.progress.num_evaluation_batches.clear();
  loop_.reset();
  const auto& limit = run_.options().limit_val_batches;
  if (limit && !takes_batches(*limit)) return;
  LoaderList loaders = source_.evaluation(Stage::kValidate, run_.module(), run_.setup, hooks_);
  if (loaders.empty()) return;
  loop_ = std::make_unique<EvaluationLoop>(run_, precision_, Stage::kValidate, std::move(loaders));
  run_.progress.num_evaluation_batches = loop_->num_batches();
}

void FitValidation::sanity_check() {
  const std::int64_t steps = run_.options().num_sanity_val_steps.value_or(2);
  if (!loop_ || steps == 0) return;
  const RandomScope random;
  const EvaluationTotals totals = run_.progress.evaluation_totals;
  EvaluationLoop sanity(run_, precision_, Stage::kSanityCheck, loop_->loaders());
  if (steps > 0) sanity.shorten(steps);
  {
    const StageScope stage(run_.progress, Stage::kSanityCheck);
    hooks_.callbacks(Hook::kOnSanityCheckStart, &Callback::on_sanity_check_start);
    sanity.run();
    hooks_.callbacks(Hook::kOnSanityCheckEnd, &Callback::on_sanity_check_end);
  }
  run_.progress.num_evaluation_batches = loop_->num_batches();
  run_.progress.evaluation_totals = totals;
}

std::int64_t FitValidation::rank_batches() const {
  if (!loop_ || !loop_->may_have_batches()) return 0;
  std::int64_t batches = 0;
  for (const std::int64_t count : loop_->num_batches()) {
    if (count < 0) return -1;
    batches += count;
  }
  return batches;
}

void FitValidation::agree(bool any_batches, const std::optional<std::int64_t>& epoch_batches) {
  run_.progress.validates = any_batches;
  schedule_ =
      ValidationSchedule(run_.options().val_check_interval, run_.options().check_val_every_n_epoch, epoch_batches, any_batches);
}

void FitValidation::start_clock() {
  const auto& interval = run_.options().val_check_interval;
  if (!interval || !interval->is_time()) return;
  interval_.emplace(interval->time().count());
  interval_->start(steady_seconds());
}

bool FitValidation::time_passed() {
  // Asking costs a meeting, so that ranks ask only now and then, in the same iterations.
  if (!interval_ || !interval_->batch_done()) return false;
  const SharedInterval::Proposal mine = interval_->propose(steady_seconds());
  // Every rank reaches this because rank 0 has told all in which batch they ask next.
  const BoundaryOutcome outcome = run_.boundaries.meet(BoundaryKind::kBatch, {mine.passed, mine.batches_on});
  const BoundaryPayload& first = outcome.payloads.front();
  return interval_->accept({first[0], first[1]}, steady_seconds());
}

bool FitValidation::due(const Iteration& iteration, bool stopping) {
  if (!schedule_.epoch_enabled(run_.progress.epoch)) return false;
  const bool by_time = time_passed();
  return stopping || by_time ||
         schedule_.due(run_.progress.epoch, iteration.index, run_.progress.total_batch_idx - 1, iteration.is_last);
}

void FitValidation::run_if_due(const Iteration& iteration, bool stopping) {
  if (due(iteration, stopping)) run(iteration);
}

void FitValidation::run(const Iteration& iteration) {
  begin_place(run_, Place::kValidation, run_.metrics->maps());
  if (iteration.ends_window) hooks_.module(Hook::kOnValidationModelZeroGrad, &Module::on_validation_model_zero_grad);
  loop_->run();
  if (interval_) interval_->start(steady_seconds());
}

void FitValidation::finish(int hooks_done) {
  run_.resume.position.place = Place::kValidationEnd;
  run_.resume.position.hooks_done = hooks_done;
  loop_->run_end();
  if (interval_) interval_->start(steady_seconds());
}

}  // namespace levin
