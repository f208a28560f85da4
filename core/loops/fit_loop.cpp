#include "levin/core/loops/fit_loop.h"

#include <algorithm>

#include "levin/core/checkpoint/rng_state.h"
#include "levin/core/console/rank_messages.h"
#include "levin/core/loops/batch_transfer.h"
#include "levin/core/resume/gradient_state.h"
#include "levin/core/run/announcements.h"
#include "levin/core/run/signals.h"

namespace levin {

namespace {
bool is_normal(const Callback& callback) {
  return callback.phase() != CallbackPhase::kMonitor && callback.phase() != CallbackPhase::kCheckpoint;
}
bool all_have_next(const BoundaryOutcome& outcome) {
  return std::all_of(outcome.rank_votes.begin(), outcome.rank_votes.end(), [](const Votes& votes) { return votes.has_next; });
}
bool is_monitor(const Callback& callback) { return callback.phase() == CallbackPhase::kMonitor; }
}  // namespace

FitLoop::FitLoop(Trainer::Runtime& runtime, const Precision& precision, DataSource& source)
    : runtime_(runtime),
      state_(runtime.state),
      precision_(precision),
      hooks_(runtime),
      votes_(runtime),
      automatic_(runtime, votes_, precision),
      schedulers_(runtime),
      rows_(runtime),
      data_(runtime, source),
      validation_(runtime, precision, source) {
  runtime_.step_votes = &votes_;
}

FitLoop::~FitLoop() { runtime_.step_votes = nullptr; }

void FitLoop::run(const ResumePoint& resume) {
  const TrainerOptions& options = runtime_.options;
  if (!runtime_.limits_given) {
    rank_zero_warn("max_epochs is not set: training stops after " + std::to_string(*options.max_epochs) +
                   " epochs. Set max_epochs: -1 for no limit.");
  }
  validation_.set_up();
  validation_.sanity_check();
  check_signal();
  data_.set_up();
  const std::int64_t every = options.reload_dataloaders_every_n_epochs;
  loaded_in_epoch_ = every == 0 ? state_.epoch : state_.epoch - state_.epoch % every;
  ResumePoint from = resume;
  if (from.is_in_epoch()) from.batches_done = data_.seek(resume);
  agree_on_epoch();
  announce();
  if (from.is_in_epoch() || !done()) {
    train_epochs(std::move(from));
  } else {
    runtime_.metrics->begin_stage(Stage::kTrain);
    if (resume.resumes) take_over(resume);
    begin(Place::kEpochStart);
  }
  rank_zero_info("Training stopped: " + state_.end_reason + ".");
}

void FitLoop::train_epochs(ResumePoint resume) {
  validation_.start_clock();
  // Before the hook: what it logs belongs to the first epoch.
  runtime_.metrics->begin_stage(Stage::kTrain);
  if (resume.resumes && resume.place == Place::kTrainStart) take_over(resume);
  runtime_.metrics->mark();
  hooks_.run(Hook::kOnTrainStart, &Callback::on_train_start, &Module::on_train_start);
  while (true) {
    run_epoch(std::exchange(resume, {}));
    check_signal();
    reload_if_due();
    agree_on_epoch();
    if (done()) break;
  }
  hooks_.run(Hook::kOnTrainEnd, &Callback::on_train_end, &Module::on_train_end);
}

void FitLoop::begin(Place place) {
  LoopPosition& position = state_.position;
  position.place = place;
  position.epochs_done = state_.epoch;
  if (place == Place::kEpochStart) position.batches_done = 0;
  position.start.random.now = RandomSnapshot::take();
  position.start.random.before_reading = position.before_reading;
  position.start.rows = rows_written(runtime_);
  position.start.evaluation_steps = state_.evaluation_steps;
  position.start.skip_epoch_wish = state_.skip_epoch_wish;
  position.start.maps.reset();
  runtime_.metrics->mark();
}

void FitLoop::take_over(const ResumePoint& resume) {
  const RankResume& rank = resume.rank;
  runtime_.metrics->restore(rank.metrics);
  state_.evaluation_steps = rank.evaluation_steps;
  if (rank.stop_wish) runtime_.trainer.stop(rank.stop_reason);
  state_.stop_agreed |= resume.stop_agreed;
  state_.skip_epoch_wish = rank.skip_epoch_wish;
  if (resume.accumulate_grad_batches) state_.accumulate_grad_batches = *resume.accumulate_grad_batches;
  take_over_gradients(resume);
  if (resume.is_in_epoch()) data_.start_epoch(state_.epoch, rank.before_reading);
  const bool goes_on = resume.place != Place::kTrainStart;
  if (goes_on && rank.random) set_rng_state(*rank.random);
  if (goes_on && rank.device_random) set_device_rng_state(*rank.device_random);
  state_.replaying = false;
  runtime_.resumed_from.reset();
}

void FitLoop::take_over_gradients(const ResumePoint& resume) {
  const bool manual = !runtime_.module->automatic_optimization();
  if (!resume.window_open && !manual) return;
  // Gradients are divided by what makes a full window, and that may be another one now.
  const double factor = manual ? 1.0 : static_cast<double>(resume.window_scale) / static_cast<double>(window_scale(state_));
  set_gradients(*runtime_.module, resume.rank.gradients, factor);
  state_.window = {.open = resume.window_open, .weight = resume.rank.window_weight};
}

void FitLoop::announce() const {
  std::vector<LoaderInUse> loaders = {{"train", &data_.loader(), data_.batches()}};
  if (const EvaluationLoop* validation = validation_.loop()) {
    const auto more = evaluation_loaders(Stage::kValidate, validation->loaders(), validation->num_batches());
    loaders.insert(loaders.end(), more.begin(), more.end());
  }
  announce_rank(runtime_, loaders);
}

void FitLoop::reload_if_due() {
  const std::int64_t every = runtime_.options.reload_dataloaders_every_n_epochs;
  if (every == 0 || state_.epoch - loaded_in_epoch_ < every) return;
  data_.set_up();
  loaded_in_epoch_ = state_.epoch;
  validation_.set_up();
}

void FitLoop::agree_on_epoch() {
  // Every rank reaches this because all begin the same epochs.
  const BoundaryOutcome outcome =
      runtime_.meet(BoundaryKind::kEpochStart,
                    {data_.epoch_batches().value_or(-1), data_.loader().batch_size().value_or(0), validation_.rank_batches()});
  check_signal();
  std::vector<std::int64_t> batches;
  for (const BoundaryWords& words : outcome.words) batches.push_back(words[0]);
  plan_ = EpochPlan(batches, /*stop_with_first=*/!runtime_.module->automatic_optimization());
  state_.num_training_batches = plan_.iterations();
  const std::int64_t batch_size = outcome.words.front()[1];
  const auto agrees = [&](const BoundaryWords& words) { return words[1] == batch_size; };
  state_.full_batch_size = std::all_of(outcome.words.begin(), outcome.words.end(), agrees) ? batch_size : 0;
  const auto validates = [](const BoundaryWords& words) { return words[2] != 0; };
  validation_.agree(std::any_of(outcome.words.begin(), outcome.words.end(), validates),
                    plan_.known() ? std::optional(plan_.iterations()) : std::nullopt);
  warn_of_long_interval();
}

void FitLoop::warn_of_long_interval() {
  const std::int64_t every = runtime_.options.log_every_n_steps.value_or(50);
  if (runtime_.loggers.empty() || !plan_.known() || plan_.iterations() == 0 || plan_.iterations() >= every) return;
  Console::instance().warn_once("An epoch has " + std::to_string(plan_.iterations()) +
                                    " training batches, fewer than log_every_n_steps = " + std::to_string(every) +
                                    ": most epochs write no step values. Lower log_every_n_steps to see them.",
                                "log_every_n_steps", Speaker::kRun);
}

bool FitLoop::can_stop_early() const {
  const TrainerOptions& options = runtime_.options;
  return state_.epoch >= options.min_epochs.value_or(0) && state_.global_step >= options.min_steps.value_or(0);
}

bool FitLoop::done() {
  const TrainerOptions& options = runtime_.options;
  std::string why;
  if (plan_.known() && plan_.iterations() == 0) {
    why = "no training batches";
  } else if (state_.stop_agreed && can_stop_early()) {
    why = !state_.stop_reason.empty()  ? state_.stop_reason
          : runtime_.world_size() == 1 ? "stop was asked for"
                                       : "rank " + std::to_string(state_.stopping_rank) + " asked for it";
  } else if (options.max_steps >= 0 && state_.global_step >= options.max_steps) {
    why = "max_steps=" + std::to_string(options.max_steps) + " reached";
  } else if (*options.max_epochs >= 0 && state_.epoch >= *options.max_epochs) {
    why = "max_epochs=" + std::to_string(*options.max_epochs) + " reached";
  } else {
    return false;
  }
  state_.end_reason = why;
  return true;
}

void FitLoop::run_epoch(const ResumePoint& resume) {
  start_epoch(resume);
  switch (resume.place) {
    case Place::kEpochEnd:
      return end_epoch(resume.completed, resume.hooks_done);
    case Place::kEpochDone:
      return save_epoch(resume.hooks_done);
    case Place::kBatchEnd:
    case Place::kValidation:
    case Place::kValidationEnd: {
      Turn turn = resume.turn;
      state_.batch_idx = turn.iteration;
      state_.is_last_batch = turn.is_last;
      state_.position.turn = turn;
      if (resume.place == Place::kBatchEnd) {
        state_.position.place = Place::kBatchEnd;
        state_.position.hooks_done = resume.hooks_done;
        HookCounter counter(state_.position.hooks_done);
        end_batch_hooks_without_batch(counter, turn);
        obey_wish_to_skip(turn);
      }
      if (!turn.is_last && plan_.known() && !any_rank_has_batch()) {
        // With other batches than those of the run that was interrupted this one was the last.
        turn.is_last = true;
        schedulers_.step(Interval::kEpoch, /*on_metric=*/false);
      }
      state_.position.turn = turn;
      finish_turn(turn, resume.place, resume.hooks_done);
      const bool over = is_over(turn);
      check_signal();
      if (!over) run_turns();
      break;
    }
    default:
      run_turns();
  }
  end_epoch(state_.position.completed, 0);
}

bool FitLoop::is_over(const Turn& turn) {
  const bool completed = turn.is_last || turn.end_epoch;
  if (!completed && !stops_here()) return false;
  at_epoch_end(completed, 0);
  return true;
}

void FitLoop::at_epoch_end(bool completed, int hooks_done) {
  state_.position.place = Place::kEpochEnd;
  state_.position.completed = completed;
  state_.position.hooks_done = hooks_done;
}

void FitLoop::start_epoch(const ResumePoint& resume) {
  const bool inside = resume.is_in_epoch();
  state_.batch_idx = resume.batches_done - 1;
  state_.skip_epoch_wish = false;
  if (resume.resumes && resume.place == Place::kEpochStart) take_over(resume);
  if (!inside) begin(Place::kEpochStart);
  hooks_.run(Hook::kOnTrainEpochStart, &Callback::on_train_epoch_start, &Module::on_train_epoch_start);
  if (inside) {
    take_over(resume);
  } else {
    data_.start_epoch(state_.epoch);
  }
  state_.position.before_reading = data_.before_reading();
  state_.position.batches_done = resume.batches_done;
  state_.samples_done = data_.samples_done(resume.batches_done);
  begin(Place::kBatch);
}

bool FitLoop::any_rank_has_batch() {
  state_.has_next_batch = data_.has_next();
  const std::int64_t done = state_.position.batches_done;
  if (plan_.known()) return done == 0 ? plan_.iterations() != 0 : !plan_.is_last(done - 1);
  if (runtime_.world_size() == 1) return state_.has_next_batch;
  // Every rank reaches this because whether the plan is known was agreed when the epoch began.
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kBatch);
  return runtime_.module->automatic_optimization() ? outcome.votes.has_next : all_have_next(outcome);
}

void FitLoop::run_turns() {
  if (!any_rank_has_batch()) return at_epoch_end(/*completed=*/true, 0);
  for (bool over = false; !over;) {
    over = is_over(run_turn(state_.position.batches_done));
    check_signal();
  }
}

bool FitLoop::stops_here() const {
  const std::int64_t max_steps = runtime_.options.max_steps;
  return (max_steps >= 0 && state_.global_step >= max_steps) || (state_.stop_agreed && can_stop_early());
}

Turn FitLoop::run_turn(std::int64_t iteration) {
  Turn turn;
  turn.iteration = iteration;
  std::optional<Batch> batch;
  if (data_.has_next()) batch = data_.take();
  state_.position.before_reading = data_.before_reading();
  state_.in_batch = true;
  state_.has_next_batch = data_.has_next();
  state_.batch_idx = iteration;
  plan_turn(turn);
  state_.is_last_batch = turn.is_last;
  votes_.begin_batch();
  const std::int64_t steps_before = state_.global_step;
  if (batch) {
    *batch = transfer_batch(runtime_, precision_, std::move(*batch), 0, 1);
    hooks_.run(Hook::kOnTrainBatchStart, &Callback::on_train_batch_start, &Module::on_train_batch_start, *batch, iteration);
  } else {
    runtime_.metrics->begin_batch({0, 0, 1});
  }
  const bool alone = runtime_.world_size() == 1;
  // On several ranks the batch is worked on all the same: a vote travels with its reduction.
  const bool skips = alone && state_.skip_epoch_wish;
  StepOutput output;
  if (!skips) output = optimize(turn, batch ? &*batch : nullptr);
  if (!alone && !reduces_gradients()) {
    agree_after_manual_step(turn, steps_before);
  } else {
    learn_from_votes(turn);
  }
  state_.position.place = Place::kBatchEnd;
  state_.position.turn = turn;
  state_.position.hooks_done = 0;
  ++state_.position.batches_done;
  state_.samples_done = data_.samples_done(state_.position.batches_done);
  state_.window.in_backward = false;
  if (!skips && turn.ends_window) schedulers_.step(Interval::kStep, /*on_metric=*/false);
  if (turn.is_last || turn.end_epoch) schedulers_.step(Interval::kEpoch, /*on_metric=*/false);
  if (skips) {
    state_.in_batch = false;
    runtime_.metrics->end_batch();
    return turn;
  }
  end_batch_hooks(turn, output, batch ? &*batch : nullptr);
  obey_wish_to_skip(turn);
  state_.in_batch = false;
  runtime_.metrics->end_batch();
  ++state_.total_batch_idx;
  finish_turn(turn, Place::kBatchEnd, 0);
  return turn;
}

void FitLoop::obey_wish_to_skip(Turn& turn) {
  if (runtime_.world_size() > 1 || !state_.skip_epoch_wish || turn.end_epoch) return;
  turn.end_epoch = true;
  state_.position.turn = turn;
  if (!turn.is_last) schedulers_.step(Interval::kEpoch, /*on_metric=*/false);
}

void FitLoop::end_batch_hooks(const Turn& turn, const StepOutput& output, const Batch* batch) {
  state_.position.hooks_done = 0;
  HookCounter counter(state_.position.hooks_done);
  if (batch != nullptr) {
    hooks_.run_counted(counter, Hook::kOnTrainBatchEnd, &Callback::on_train_batch_end, &Module::on_train_batch_end, output,
                       *batch, turn.iteration);
  } else {
    end_batch_hooks_without_batch(counter, turn);
  }
}

void FitLoop::end_batch_hooks_without_batch(HookCounter& counter, const Turn& turn) {
  const auto decides = [&](const Callback& callback) { return counter.next() && !is_normal(callback); };
  const auto run = [&](const auto& filter) {
    hooks_.callbacks_if([&](const Callback& callback) { return filter(callback) && decides(callback); }, Hook::kOnTrainBatchEnd,
                        &Callback::on_train_batch_end, StepOutput(), Batch(), turn.iteration);
  };
  run(HookRunner::others);
  counter.next();  // the module
  run(HookRunner::saves_state);
}

void FitLoop::plan_turn(Turn& turn) {
  const std::int64_t every = state_.accumulate_grad_batches;
  const bool automatic = runtime_.module->automatic_optimization();
  turn.starts_window = !state_.window.open;
  turn.ends_window = (turn.iteration + 1) % every == 0;
  if (runtime_.world_size() == 1) {
    turn.is_last = !state_.has_next_batch || plan_.is_last(turn.iteration);
  } else if (plan_.known()) {
    turn.is_last = plan_.is_last(turn.iteration);
  } else if (every > 1 || !reduces_gradients()) {
    // Nothing tells in time which batch is the last, so ranks ask each other. A rare case, and the only one that pays for it.
    // Every rank reaches this because nothing above depends on its own data.
    const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kBatch);
    turn.is_last = automatic ? !outcome.votes.has_next : !all_have_next(outcome);
  }
  turn.ends_window |= turn.is_last;
}

bool FitLoop::reduces_gradients() const { return runtime_.module->automatic_optimization() && !runtime_.optimizers.empty(); }

StepOutput FitLoop::optimize(const Turn& turn, const Batch* batch) {
  if (reduces_gradients()) {
    return automatic_.run(batch, turn.iteration, turn.starts_window, turn.ends_window);
  }
  return forward_only(turn, batch);
}

StepOutput FitLoop::forward_only(const Turn& turn, const Batch* batch) {
  if (batch == nullptr) return {};
  const at::AutoGradMode with_gradients(true);
  runtime_.strategy->synchronize_buffers(*runtime_.module);
  const Precision::Forward forward(precision_);
  StepOutput output = hooks_.module(Hook::kTrainingStep, &Module::training_step, *batch, turn.iteration);
  if (output.loss.defined()) output.loss = output.loss.detach();
  return output;
}

void FitLoop::learn_from_votes(Turn& turn) {
  if (runtime_.world_size() == 1) {
    runtime_.adopt({runtime_.votes()});
    turn.end_epoch = state_.skip_epoch_wish;
    return;
  }
  if (!votes_.reduced()) return;
  turn.end_epoch = votes_.agreed().end_epoch;
  if (!plan_.known() && state_.accumulate_grad_batches == 1) {
    turn.is_last = !votes_.agreed().has_next;
    state_.is_last_batch = turn.is_last;
  }
}

void FitLoop::agree_after_manual_step(Turn& turn, std::int64_t steps_before) {
  const std::int64_t own_steps = std::exchange(state_.global_step, steps_before);
  // Every rank reaches this because only the user's code knows what a step has reduced, and how many steps it took.
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kBatch, {own_steps});
  turn.end_epoch = outcome.votes.end_epoch;
  for (const BoundaryWords& words : outcome.words) state_.global_step = std::max(state_.global_step, words[0]);
}

void FitLoop::write_step_row(const Turn& turn) {
  if (!turn.ends_window) return;
  const std::int64_t every = runtime_.options.log_every_n_steps.value_or(50);
  const bool due = every > 0 && ((state_.logging_step + 1) % every == 0 || state_.stop_agreed);
  rows_.write_local_step(state_.logging_step, /*to_rank_zero=*/false);
  // Every rank reaches this because steps are counted alike, and a stop was agreed.
  if (due) rows_.write(runtime_.meet(BoundaryKind::kTrainStep), state_.logging_step, /*epoch_end=*/false);
}

void FitLoop::finish_turn(const Turn& turn, Place from, int hooks_done) {
  state_.position.place = from;
  if (from == Place::kBatchEnd) {
    write_step_row(turn);
    if (!turn.end_epoch) validation_.run_if_due(turn, state_.stop_agreed && can_stop_early());
  } else if (state_.validates) {
    // A run that resumes may have no validation any more.
    from == Place::kValidation ? validation_.run(turn) : validation_.finish(hooks_done);
  }
  if (turn.ends_window) {
    schedulers_.step(Interval::kStep, /*on_metric=*/true);
    ++state_.logging_step;
  }
  begin(Place::kBatch);
}

void FitLoop::end_epoch(bool completed, int hooks_done) {
  LoopPosition& position = state_.position;
  at_epoch_end(completed, hooks_done);
  // Every rank reaches this because all have agreed on the epoch's last batch.
  runtime_.meet(BoundaryKind::kEpochReached);
  HookCounter counter(position.hooks_done);
  hooks_.callbacks_counted(counter, is_normal, Hook::kOnTrainEpochEnd, &Callback::on_train_epoch_end);
  hooks_.module_counted(counter, Hook::kOnTrainEpochEnd, &Module::on_train_epoch_end);
  // Every rank reaches this because it ends the hooks that follow the meeting above.
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kEpochEnd);
  hooks_.callbacks_counted(counter, is_monitor, Hook::kOnTrainEpochEnd, &Callback::on_train_epoch_end);
  if (completed) schedulers_.step(Interval::kEpoch, /*on_metric=*/true);
  rows_.write(outcome, std::max<std::int64_t>(0, state_.logging_step - 1), /*epoch_end=*/true);
  rows_.save();
  runtime_.metrics->reset_epoch();
  position.before_reading.reset();
  // Where an epoch was skipped, gradients that waited for more batches are dropped.
  if (runtime_.module->automatic_optimization()) state_.window = {};
  save_epoch(0);
}

void FitLoop::save_epoch(int hooks_done) {
  LoopPosition& position = state_.position;
  position.place = Place::kEpochDone;
  position.hooks_done = hooks_done;
  HookCounter counter(position.hooks_done);
  const auto saves = [](const auto& callback) { return HookRunner::saves_state(*callback); };
  auto left = std::count_if(runtime_.callbacks.begin(), runtime_.callbacks.end(), saves);
  const auto end = [&] {
    begin(Place::kEpochStart);
    ++position.epochs_done;
  };
  if (left == 0) end();
  const auto has_turn = [&](const Callback& callback) {
    if (!HookRunner::saves_state(callback)) return false;
    // What the last one saves is of a run that goes on with the next epoch.
    if (--left == 0) end();
    return counter.next();
  };
  hooks_.callbacks_if(has_turn, Hook::kOnTrainEpochEnd, &Callback::on_train_epoch_end);
  ++state_.epoch;
  state_.batch_idx = -1;
}

void FitLoop::check_signal() const {
  if (state_.signal_agreed == 0) return;
  throw Interrupted(state_.signal_agreed,
                    "in epoch " + std::to_string(state_.epoch) + " after global step " + std::to_string(state_.global_step));
}

}  // namespace levin
