#include "levin/core/engine/loops/take_over.h"

#include <utility>

#include "levin/core/engine/parts/metric_rows.h"
#include "levin/core/engine/parts/module_modes.h"
#include "levin/core/engine/resume/parameter_state.h"
#include "levin/core/random/rng_state.h"

namespace levin {

namespace {

void take_over_gradients(TrainerState& run, const ResumePoint& resume) {
  const bool manual = !run.module().automatic_optimization();
  if (!resume.window_open && !manual) return;
  // Gradients are divided by what makes a full window, and that may be another one now.
  const double factor = manual ? 1.0 : static_cast<double>(resume.window_scale) / static_cast<double>(run.accumulation.scale());
  set_gradients(run.module(), resume.rank.gradients, factor);
  run.accumulation.window = {.open = resume.window_open, .weight = resume.rank.window_weight};
}

}  // namespace

void begin_place(TrainerState& run, Place place, std::optional<MetricMaps> maps) {
  LoopPosition& position = run.resume.position;
  position.place = place;
  position.epochs_done = run.progress.epoch;
  if (place == Place::kEpochStart) position.batches_done = 0;
  position.start = {RandomSnapshot::take(),
                    position.before_reading,
                    rows_written(run.setup.loggers),
                    run.progress.evaluation_steps,
                    std::move(maps),
                    run.stop.skips_epoch(),
                    run.trained.now(),
                    run.trained.agreed(),
                    ModuleModes::now(run.module(), std::move(position.start.modes))};
  run.metrics->mark();
}

void take_over(TrainerState& run, TrainingData& data, const ResumePoint& resume) {
  const RankResume& rank = resume.rank;
  run.metrics->restore(rank.metrics);
  run.progress.evaluation_steps = rank.evaluation_steps;
  if (rank.stop_wish) run.stop.ask(rank.stop_reason);
  if (resume.stop_agreed) run.stop.agree();
  run.stop.skip_epoch(rank.skip_epoch_wish);
  if (resume.parameters) resume.parameters->restore_place(run);
  if (resume.accumulate_grad_batches) run.accumulation.batches = *resume.accumulate_grad_batches;
  take_over_gradients(run, resume);
  run.nan.restore(rank.bad_loss);
  if (resume.is_in_epoch()) data.start_epoch(run.progress.epoch, rank.before_reading, resume.reading);
  const bool goes_on = resume.place != Place::kTrainStart;
  if (goes_on) set_random_states(rank.random, run.strategy().rank());
  run.resume.arrive();
}

}  // namespace levin
