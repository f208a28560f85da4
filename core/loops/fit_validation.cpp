#include "levin/core/loops/fit_validation.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/steady_seconds.h"
#include "levin/core/rows/metric_rows.h"

namespace levin {

FitValidation::FitValidation(Trainer::Runtime& runtime, const Precision& precision, DataSource& source)
    : runtime_(runtime), state_(runtime.state), precision_(precision), source_(source), hooks_(runtime) {}

void FitValidation::set_up() {
  state_.num_evaluation_batches.clear();
  loop_.reset();
  const auto& limit = runtime_.options.limit_val_batches;
  if (limit && *limit == Limit(0)) return;
  LoaderList loaders = source_.evaluation(runtime_, Stage::kValidate);
  if (loaders.empty()) return;
  loop_ =
      std::make_unique<EvaluationLoop>(runtime_, precision_, Stage::kValidate, std::move(loaders), limit, "limit_val_batches");
  state_.num_evaluation_batches = loop_->num_batches();
}

void FitValidation::sanity_check() {
  const std::int64_t steps = runtime_.options.num_sanity_val_steps.value_or(2);
  if (!loop_ || steps == 0) return;
  const RandomScope random;
  EvaluationLoop sanity(runtime_, precision_, Stage::kSanityCheck, loop_->loaders(),
                        steps < 0 ? runtime_.options.limit_val_batches : std::optional<Limit>(sanity_limit(steps)),
                        "num_sanity_val_steps");
  const Stage stage = std::exchange(state_.stage, Stage::kSanityCheck);
  hooks_.callbacks(Hook::kOnSanityCheckStart, &Callback::on_sanity_check_start);
  sanity.run();
  hooks_.callbacks(Hook::kOnSanityCheckEnd, &Callback::on_sanity_check_end);
  state_.stage = stage;
  state_.num_evaluation_batches = loop_->num_batches();
}

Limit FitValidation::sanity_limit(std::int64_t steps) const {
  // Never more than validation itself will see.
  const auto& limit = runtime_.options.limit_val_batches;
  return limit && !limit->is_share() ? Limit(std::min(steps, limit->batches())) : Limit(steps);
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
  state_.validates = any_batches;
  schedule_ = ValidationSchedule(runtime_.options.val_check_interval, runtime_.options.check_val_every_n_epoch, epoch_batches,
                                 any_batches);
}

void FitValidation::start_clock() {
  const auto& interval = runtime_.options.val_check_interval;
  if (!interval || !interval->is_time()) return;
  interval_.emplace(interval->time().count());
  interval_->start(steady_seconds());
}

bool FitValidation::time_passed() {
  // Asking costs a meeting, so that ranks ask only now and then, in the same turns.
  if (!interval_ || !interval_->batch_done()) return false;
  const SharedInterval::Proposal mine = interval_->propose(steady_seconds());
  // Every rank reaches this because rank 0 has told all in which batch they ask next.
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kBatch, {mine.passed, mine.batches_on});
  const BoundaryWords& first = outcome.words.front();
  return interval_->accept({first[0], first[1]}, steady_seconds());
}

bool FitValidation::due(const Turn& turn, bool stopping) {
  if (!schedule_.epoch_enabled(state_.epoch)) return false;
  const bool by_time = time_passed();
  return stopping || by_time || schedule_.due(state_.epoch, turn.iteration, state_.total_batch_idx - 1, turn.is_last);
}

void FitValidation::run_if_due(const Turn& turn, bool stopping) {
  if (due(turn, stopping)) run(turn);
}

void FitValidation::run(const Turn& turn) {
  LoopPosition& position = state_.position;
  position.place = Place::kValidation;
  position.start = {{RandomSnapshot::take(), position.before_reading},
                    rows_written(runtime_),
                    state_.evaluation_steps,
                    runtime_.metrics->maps(),
                    state_.skip_epoch_wish};
  runtime_.metrics->mark();
  if (turn.ends_window) hooks_.module(Hook::kOnValidationModelZeroGrad, &Module::on_validation_model_zero_grad);
  loop_->run();
  if (interval_) interval_->start(steady_seconds());
}

void FitValidation::finish(int hooks_done) {
  state_.position.place = Place::kValidationEnd;
  state_.position.hooks_done = hooks_done;
  loop_->run_end();
  if (interval_) interval_->start(steady_seconds());
}

}  // namespace levin
