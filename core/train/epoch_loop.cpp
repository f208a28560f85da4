#include "levin/core/train/epoch_loop.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/core/diagnostics/torch_messages.h"
#include "levin/core/run/rank_agreement.h"
#include "levin/core/state/checkpoint_state.h"

namespace levin {

namespace {
bool is_monitor(const Callback& callback) { return callback.phase() == CallbackPhase::kMonitor; }
bool saves_state(const Callback& callback) { return callback.saves_state(); }
bool is_normal(const Callback& callback) { return !is_monitor(callback) && HookRunner::others(callback); }
}  // namespace

EpochLoop::EpochLoop(TrainerState& run, const PrecisionPolicy& precision, TrainingData& data, FitValidation& validation,
                     const EpochPlan& plan)
    : run_(run),
      progress_(run.progress),
      position_(run.resume.position),
      hooks_(run.hooks),
      precision_(precision),
      alone_(run.world_size() == 1),
      stop_(run.options(), run.progress, run.wishes, run.world_size()),
      commanded_(run, stop_),
      votes_(run.strategy().vote_channel(), run.boundaries, run.trained, run.nan),
      data_(data),
      validation_(validation),
      plan_(plan),
      automatic_(run.step_context(), votes_, precision),
      schedulers_(run.parts, run.progress, *run.metrics, run.hooks),
      rows_(run.setup.loggers, run.is_global_zero(), run.progress, run.hooks) {
  run_.step_votes = &votes_;
}

void EpochLoop::check_files() const {
  if (!run_.files.has_news()) return;
  const auto scope = hooks_.enter(Hook::kOnSaveCheckpoint);
  run_.files.check();
}

void EpochLoop::begin(const ResumePoint& resume) {
  profiled_.emplace(hooks_.profiler(), "run_training_epoch");
  start(resume);
  continues_ = false;
  if (resume.place == Place::kEpochEnd) {
    reach_end(resume.completed);
    return save_requested(run_);
  }
  const bool is_behind_batch = resume.place == Place::kValidation || resume.place == Place::kValidationEnd;
  if (is_behind_batch ? resume_behind_batch(resume) : resume_before_batch(resume)) return;
  was_empty_ = !has_batch_ && position_.batches_done == 0;
  continues_ = has_batch_;
  if (!continues_) reach_end(/*completed=*/true);
}

void EpochLoop::start(const ResumePoint& resume) {
  const bool inside = resume.is_in_epoch();
  ParameterSection& parameters = run_.sections->get<ParameterSection>();
  progress_.batch.batch_idx = resume.batches_done - 1;
  // The earlier steps of a resumed epoch are not known.
  first_step_ = inside ? -1 : progress_.global_step;
  run_.wishes.skip_epoch(false);
  if (!inside) begin_place(run_, Place::kEpochStart);
  // Drops gradients that waited for more batches of an epoch within which the ranks stopped.
  if (!inside && run_.module().automatic_optimization()) run_.accumulation.window = {};
  if (inside) run_.sections->restore(run_, Moment::kEpochStart);
  parameters.begin_epoch(run_);
  hooks_.run(Hook::kOnTrainEpochStart, &Callback::on_train_epoch_start, &Module::on_train_epoch_start);
  if (inside) {
    resume_here(run_, data_, resume);
    run_.sections->restore(run_, Moment::kAgreed);
  } else {
    data_.start_epoch(progress_.epoch);
  }
  agree_on_start(/*begins=*/!inside);
  window_ = run_.accumulation.batches;
  // Ranks have agreed on the earlier parameters; hooks had changed them since.
  if (inside) parameters.restore(run_, Moment::kPlace);
  // What was loaded would live as long as the fit.
  if (resume.resumes) run_.sections->forget();
  position_.before_reading = data_.before_reading();
  if (inside) position_.iteration = resume.iteration;
  position_.batches_done = resume.batches_done;
  position_.samples_done = data_.samples_done(resume.batches_done);
  begin_place(run_, Place::kBatch);
  // A run that resumes after its last batch, or with a validation, saves later. So does an epoch that a Session's step begins:
  // what its caller keeps counts that step's batch.
  const bool may_save = inside ? resume.place == Place::kBatch || resume.place == Place::kStopped : !data_.is_stepped();
  if (may_save) save_requested(run_);
}

void EpochLoop::agree_on_start(bool begins) {
  progress_.batch.has_next = has_batch_ = data_.has_next();
  const bool changed = run_.trained.changed();
  const std::int64_t samples = data_.is_stepped() ? data_.loader().batch_size().value_or(0) : 0;
  if (alone_) {
    if (data_.is_stepped() && begins) weigh_by_samples({samples});
    if (changed) run_.trained.agree(/*after_reduction=*/false);
    return;
  }
  // Every rank reaches this because all begin the same epochs, and run the same hooks before.
  const BoundaryOutcome outcome =
      run_.boundaries.meet(BoundaryKind::kEpochStart, {changed ? 1 : 0, data_.mark_of_next(), samples});
  has_batch_ = have_next(outcome);
  if (data_.is_stepped() && begins) {
    std::vector<std::int64_t> samples_of_ranks;
    for (const BoundaryPayload& payload : outcome.payloads) samples_of_ranks.push_back(payload[2]);
    weigh_by_samples(samples_of_ranks);
  }
  std::vector<std::int64_t> first_batches;
  for (const BoundaryPayload& payload : outcome.payloads) first_batches.push_back(payload[1]);
  check_different_batches(first_batches, progress_.epoch);
  const auto says_so = [](const BoundaryPayload& payload) { return payload[0] != 0; };
  // Every rank reaches this because each has the payloads of all.
  if (std::ranges::any_of(outcome.payloads, says_so)) run_.trained.agree(/*after_reduction=*/false);
}

void EpochLoop::weigh_by_samples(const std::vector<std::int64_t>& samples_of_ranks) {
  // A full batch of one sample would stand for weights that are not numbers of samples.
  run_.accumulation.full_batch_size = std::max<std::int64_t>(2, std::ranges::max(samples_of_ranks));
}

bool EpochLoop::resume_behind_batch(const ResumePoint& resume) {
  Iteration iteration = resume.iteration;
  progress_.batch.batch_idx = iteration.index;
  progress_.batch.is_last = iteration.is_last || iteration.end_epoch;
  if (!iteration.is_last && !has_batch_) {
    // The data ends here, as the interrupted run had other batches.
    iteration.is_last = true;
    schedulers_.step(Interval::kEpoch, /*on_metric=*/false);
  }
  position_.iteration = iteration;
  // A resumed run may have no validation any more.
  if (resume.place == Place::kValidation && progress_.validates) validation_.run(iteration);
  finish_iteration(iteration);
  return is_over_at_boundary(iteration);
}

bool EpochLoop::resume_before_batch(const ResumePoint& resume) {
  if (!resume.is_in_epoch() || !stop_.ends_epoch()) return false;
  stop_inside(resume.iteration);
  return true;
}

bool EpochLoop::is_over_at_boundary(Iteration& iteration) {
  bool over = is_over(iteration);
  save_requested(run_);
  if (run_.wishes.is_paused()) {
    while (commanded_.obey()) {
      validation_.run(iteration);
      finish_iteration(iteration);
      over = is_over(iteration);
      save_requested(run_);
    }
    // A stop may have been requested during the pause.
    over = over || is_over(iteration);
  }
  check_files();
  throw_if_signalled();
  return over;
}

bool EpochLoop::is_over(const Iteration& iteration) {
  warn_of_delayed_stop();
  if (iteration.is_last || iteration.end_epoch) {
    reach_end(/*completed=*/true);
    return true;
  }
  if (!stops_inside(iteration)) return false;
  stop_inside(iteration);
  return true;
}

void EpochLoop::warn_of_delayed_stop() const {
  if (!run_.wishes.stop_agreed() || stop_.stopping()) return;
  Console::instance().warn_once(format("Training was to stop ({}), but continues until it has reached {}.",
                                       run_.wishes.why_stopping(run_.world_size()), stop_.what_holds_it_up()),
                                "a delayed stop", Speaker::kRun);
}

void EpochLoop::reach_end(bool completed) {
  position_.completed = completed;
  begin_place(run_, Place::kEpochEnd);
}

void EpochLoop::stop_inside(const Iteration& iteration) {
  position_.iteration = iteration;
  position_.completed = false;
  begin_place(run_, Place::kStopped);
}

void EpochLoop::finish_stop() {
  const Iteration& iteration = position_.iteration;
  // The iteration's step has been counted.
  if (iteration.row_is_left) meet_for_row(progress_.logging_step - 1);
  // A resumed run may have no validation any more.
  if (iteration.validation_is_left && progress_.validates) validation_.run_here(iteration);
}

bool EpochLoop::have_next(const BoundaryOutcome& outcome) const {
  if (run_.module().automatic_optimization()) return outcome.votes.has_next;
  return std::ranges::all_of(outcome.rank_votes, &Votes::has_next);
}

bool EpochLoop::ranks_have_next() {
  // Every rank reaches this because its caller says why.
  return have_next(run_.boundaries.meet(BoundaryKind::kBatch));
}

StepOutput EpochLoop::iterate() {
  const WorkScope work(run_.work, Work::kHooks);
  Iteration iteration = run_iteration(position_.batches_done);
  if (hooks_.profiler() != nullptr) hooks_.profiler()->batch_done();
  continues_ = !is_over_at_boundary(iteration);
  return std::exchange(output_, {});
}

void EpochLoop::finish() {
  if (run_.reduces_gradients() && run_.accumulation.window.open) {
    // An iteration without a batch takes the step of the batches that wait for more.
    while (continues_) iterate();
    return;
  }
  if (position_.batches_done == 0) {
    was_empty_ = true;
    continues_ = false;
    return reach_end(/*completed=*/true);
  }
  Iteration iteration = position_.iteration;
  progress_.batch.is_last = iteration.is_last = true;
  schedulers_.step(Interval::kEpoch, /*on_metric=*/false);
  validation_.run_if_due_at_end(iteration);
  finish_iteration(iteration);
  continues_ = !is_over_at_boundary(iteration);
}

Iteration EpochLoop::run_iteration(std::int64_t index) {
  Iteration iteration{.index = index};
  std::optional<Batch> batch;
  if (data_.has_next()) {
    const ProfiledAction action(hooks_.profiler(), "[_TrainingEpochLoop].train_dataloader_next");
    const WorkScope work(run_.work, Work::kLoader);
    batch = data_.take();
  }
  position_.before_reading = data_.before_reading();
  const FailedBatchScope scope(run_.failed_batch, batch);
  BatchProgress& progress = progress_.batch;
  progress.in_work = true;
  {
    const WorkScope work(run_.work, Work::kLoader);
    progress.has_next = data_.has_next();
  }
  progress.batch_idx = index;
  plan_iteration(iteration);
  progress.is_last = iteration.is_last;
  votes_.begin_batch();
  run_.gathered->begin_batch();
  run_.scaler.begin_batch();
  run_.nan.begin_batch(iteration.ends_window && (row_is_due(progress_.logging_step + 1) || run_.wishes.stop_agreed()));
  const std::int64_t steps_before = progress_.global_step;
  if (batch) {
    *batch = transfer_batch(hooks_, *run_.metrics, run_.strategy().device(), precision_, std::move(*batch), 0, 1);
    hooks_.run(Hook::kOnTrainBatchStart, &Callback::on_train_batch_start, &Module::on_train_batch_start, *batch, index);
  } else {
    run_.metrics->begin_batch({0, 0, 1});
  }
  // Several ranks process the batch all the same: a vote travels with its reduction.
  const bool skips = alone_ && run_.wishes.skips_epoch();
  output_ = {};
  if (!skips) {
    const ProfiledAction action(hooks_.profiler(), "run_training_batch");
    output_ = optimize(iteration, batch ? &*batch : nullptr);
  }
  const Votes agreed = agree(iteration, steps_before, batch ? batch->batch_size() : 0);
  if (!skips) commanded_.take(agreed, iteration);
  step_done(iteration);
  if (!skips && iteration.ends_window) schedulers_.step(Interval::kStep, /*on_metric=*/false);
  if (iteration.is_last || iteration.end_epoch) schedulers_.step(Interval::kEpoch, /*on_metric=*/false);
  if (!skips) {
    end_batch_hooks(iteration, output_, batch ? &*batch : nullptr);
    obey_wish_to_skip(iteration);
  }
  progress.is_last |= iteration.end_epoch;
  progress.in_work = false;
  run_.metrics->end_batch();
  if (skips) return iteration;
  ++progress_.total_batch_idx;
  commanded_.save_if_asked();
  write_step_row(iteration);
  {
    const WorkScope work(run_.work, Work::kNone);
    validation_.run_if_due(iteration, stop_.stopping(), stops_inside(iteration));
  }
  finish_iteration(iteration);
  return iteration;
}

void EpochLoop::plan_iteration(Iteration& iteration) {
  // If ranks may have to ask one another, all use the number that they have agreed on.
  if (alone_ || plan_.known()) window_ = run_.accumulation.batches;
  iteration.starts_window = !run_.accumulation.window.open;
  iteration.ends_window = (iteration.index + 1) % window_ == 0;
  if (alone_) {
    iteration.is_last = !progress_.batch.has_next || plan_.is_last(iteration.index);
  } else if (plan_.known()) {
    iteration.is_last = plan_.is_last(iteration.index);
  } else if (window_ > 1 || !run_.reduces_gradients()) {
    // The last batch is not known in time, so ranks ask one another. This case is rare, and the only one that pays for it.
    // Every rank reaches this because nothing above depends on its own data.
    iteration.is_last = !ranks_have_next();
  }
  iteration.ends_window |= iteration.is_last;
}

StepOutput EpochLoop::optimize(const Iteration& iteration, const Batch* batch) {
  if (run_.reduces_gradients()) return automatic_.run(batch, iteration.index, iteration.starts_window, iteration.ends_window);
  if (batch == nullptr) return {};
  const at::AutoGradMode with_gradients(true);
  run_.strategy().synchronize_buffers(run_.module());
  const PrecisionPolicy::Forward forward(precision_);
  const WorkScope work(run_.work, Work::kForward);
  const auto step = [&](Module& module) {
    return run_.step_closure ? run_.step_closure(*batch) : module.training_step(*batch, iteration.index);
  };
  StepOutput output = hooks_.module(Hook::kTrainingStep, step);
  if (const auto toggled = run_.trained.toggled()) {
    throw MisuseError(format("training_step ended while optimizer {} was toggled: end each turn with untoggle_optimizer({}).",
                             *toggled, *toggled));
  }
  if (output.loss.defined()) output.loss = output.loss.detach();
  return output;
}

Votes EpochLoop::agree(Iteration& iteration, std::int64_t steps_before, std::int64_t samples) {
  if (alone_) {
    const Votes agreed = run_.boundaries.adopt({run_.boundaries.votes()});
    iteration.end_epoch = run_.wishes.skips_epoch();
    return agreed;
  }
  if (!run_.reduces_gradients()) return agree_after_manual_step(iteration, steps_before, samples);
  if (!votes_.reduced()) return {};
  const Votes& agreed = votes_.agreed();
  iteration.end_epoch = agreed.end_epoch;
  const std::int64_t window = std::exchange(window_, agreed.accumulate_grad_batches);
  // A loader may end before its size().
  if (plan_.known() || window == 1) progress_.batch.is_last = iteration.is_last |= !agreed.has_next;
  return agreed;
}

Votes EpochLoop::agree_after_manual_step(Iteration& iteration, std::int64_t steps_before, std::int64_t samples) {
  const std::int64_t own_steps = std::exchange(progress_.global_step, steps_before);
  // Every rank reaches this because only the user's code knows what a step has reduced, and how many steps it took.
  const BoundaryOutcome outcome = run_.boundaries.meet(BoundaryKind::kBatch, {own_steps, samples});
  iteration.end_epoch = outcome.votes.end_epoch;
  progress_.batch.is_last = iteration.is_last |= !have_next(outcome);
  progress_.batch.samples_of_all = 0;
  for (const BoundaryPayload& payload : outcome.payloads) {
    progress_.global_step = std::max(progress_.global_step, payload[0]);
    progress_.batch.samples_of_all += payload[1];
  }
  return outcome.votes;
}

void EpochLoop::step_done(const Iteration& iteration) {
  position_.step_is_taken = true;
  position_.iteration = iteration;
  ++position_.batches_done;
  position_.samples_done = data_.samples_done(position_.batches_done);
  run_.accumulation.window.in_backward = false;
}

void EpochLoop::obey_wish_to_skip(Iteration& iteration) {
  if (!alone_ || !run_.wishes.skips_epoch() || iteration.end_epoch) return;
  iteration.end_epoch = true;
  position_.iteration = iteration;
  if (!iteration.is_last) schedulers_.step(Interval::kEpoch, /*on_metric=*/false);
}

void EpochLoop::end_batch_hooks(const Iteration& iteration, const StepOutput& output, const Batch* batch) {
  if (batch != nullptr) {
    return hooks_.run(Hook::kOnTrainBatchEnd, &Callback::on_train_batch_end, &Module::on_train_batch_end, output, *batch,
                      iteration.index);
  }
  for (const auto& filter : {&is_monitor, &saves_state}) {
    hooks_.callbacks_if(filter, Hook::kOnTrainBatchEnd, &Callback::on_train_batch_end, StepOutput(), Batch(), iteration.index);
  }
}

bool EpochLoop::row_is_due(std::int64_t steps) const {
  const std::int64_t every = run_.options().step_row_interval();
  return every > 0 && steps % every == 0;
}

void EpochLoop::write_step_row(Iteration& iteration) {
  if (!iteration.ends_window) return;
  rows_.write_local_step(*run_.metrics, progress_.logging_step);
  const bool is_due = row_is_due(progress_.logging_step + 1);
  const bool is_last = run_.wishes.stop_agreed() && run_.options().step_row_interval() > 0;
  iteration.row_is_left = is_last && !is_due && stops_inside(iteration);
  if (is_due || (is_last && !iteration.row_is_left)) meet_for_row(progress_.logging_step);
}

void EpochLoop::meet_for_row(std::int64_t step) {
  // Every rank reaches this because steps are counted alike, and a stop was agreed.
  const BoundaryOutcome outcome =
      run_.boundaries.meet(BoundaryKind::kTrainStep, run_.reports.payload(run_.work.take(), run_.strategy()));
  run_.reports.take(outcome.payloads);
  warn_of_straggler(outcome, step);
  run_.nan.look_at_deferred();
  run_.nan.look_at_row(outcome.logger_row);
  rows_.write(outcome, step, /*epoch_end=*/false);
}

void EpochLoop::warn_of_straggler(const BoundaryOutcome& outcome, std::int64_t step) {
  const auto straggler = run_.stragglers.look(outcome.payloads, step + 1);
  if (!straggler) return;
  const ExchangeSite site("the hosts of ranks, to tell which is slow", "all found the same rank slow, by what all reported");
  const std::vector<std::string> hosts = run_.rank_exchange().gather_text_to_rank_zero(host_name(), site);
  if (hosts.empty()) return;
  const auto rank = static_cast<std::size_t>(straggler->rank);
  Console::instance().warn_once(straggler->text(hosts[rank]), format("straggler {}", rank), Speaker::kRun);
}

void EpochLoop::finish_iteration(Iteration& iteration) {
  if (iteration.ends_window && !iteration.is_finished) {
    if (!alone_ && schedulers_.is_due(Interval::kStep, /*on_metric=*/true)) {
      // Every rank reaches this because all have the same schedulers, and count batches alike.
      run_.boundaries.meet(BoundaryKind::kDecision);
    }
    schedulers_.step(Interval::kStep, /*on_metric=*/true);
    ++progress_.logging_step;
  }
  iteration.is_finished = true;
  position_.iteration = iteration;
  begin_place(run_, Place::kBatch);
}

void EpochLoop::warn_of_epoch_without_training() {
  const auto warn = [&](const char* what, const char* advice, const char* key) {
    Console::instance().warn_once(
        format("training_step {} epoch {}, so nothing was trained. {}", what, progress_.epoch, advice), key, Speaker::kRun);
  };
  const AutomaticOptimization::Steps steps = automatic_.count_steps();
  if (steps.taken > 0 && steps.with_loss == 0) {
    warn("gave no loss in any step of",
         "Return the loss; or call set_automatic_optimization(false) in the constructor, if training_step takes steps itself.",
         "no loss");
  }
  const bool by_hand = !run_.module().automatic_optimization() && !run_.parts.optimizers.empty();
  if (by_hand && position_.batches_done > 0 && progress_.global_step == first_step_) {
    warn("took no optimizer's step in", "With manual optimization it calls manual_backward(loss) and step_optimizer() itself.",
         "no step");
  }
}

void EpochLoop::end() {
  warn_of_epoch_without_training();
  const bool stopped = position_.place == Place::kStopped;
  if (stopped) finish_stop();
  if (!stopped && !was_empty_ && !position_.iteration.end_epoch) data_.check_size();
  if (run_.wishes.stops_after_epoch()) run_.wishes.ask_to_stop(format("it was asked to after epoch {}", progress_.epoch));
  // Every rank reaches this because all have agreed on the epoch's last batch.
  run_.boundaries.meet(BoundaryKind::kEpochReached);
  hooks_.callbacks_if(is_normal, Hook::kOnTrainEpochEnd, &Callback::on_train_epoch_end);
  hooks_.module(Hook::kOnTrainEpochEnd, &Module::on_train_epoch_end);
  // Every rank reaches this because it ends the hooks that follow the exchange above.
  const BoundaryOutcome outcome = run_.boundaries.meet(BoundaryKind::kEpochEnd);
  run_.nan.look_at_row(outcome.logger_row);
  run_.nan.end_epoch();
  hooks_.callbacks_if(is_monitor, Hook::kOnTrainEpochEnd, &Callback::on_train_epoch_end);
  if (position_.completed) schedulers_.step(Interval::kEpoch, /*on_metric=*/true);
  rows_.write(outcome, std::max<std::int64_t>(0, progress_.logging_step - 1), /*epoch_end=*/true);
  save_rows(run_.setup.loggers, hooks_);
  run_.metrics->reset_epoch();
  position_.before_reading.reset();
  // Drops gradients that waited for more batches of a skipped epoch.
  if (!stopped && run_.module().automatic_optimization()) run_.accumulation.window = {};
  // Last, so that they see the epoch's values and the effects of all other hooks.
  hooks_.callbacks_if(&saves_state, Hook::kOnTrainEpochEnd, &Callback::on_train_epoch_end);
  if (!stopped) {
    begin_place(run_, Place::kEpochStart);
    ++position_.epochs_done;
  }
  save_requested(run_);
  ++progress_.epoch;
  profiled_.reset();
}

}  // namespace levin
