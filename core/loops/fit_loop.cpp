#include "levin/core/loops/fit_loop.h"

#include <algorithm>

#include "levin/core/console/rank_messages.h"
#include "levin/core/loops/announcements.h"
#include "levin/core/loops/batch_transfer.h"
#include "levin/core/loops/signals.h"
#include "levin/core/steady_seconds.h"

namespace levin {

namespace {
bool is_monitor(const Callback& callback) {
  return callback.phase() == CallbackPhase::kMonitor || callback.phase() == CallbackPhase::kCheckpoint;
}
}  // namespace

FitLoop::FitLoop(Trainer::Runtime& runtime, const Precision& precision, DataSource& source)
    : runtime_(runtime),
      state_(runtime.state),
      precision_(precision),
      source_(source),
      hooks_(runtime),
      votes_(runtime),
      automatic_(runtime, votes_, precision),
      schedulers_(runtime),
      rows_(runtime) {
  runtime_.step_votes = &votes_;
}

FitLoop::~FitLoop() { runtime_.step_votes = nullptr; }

void FitLoop::run(const ResumePoint& resume) {
  const TrainerOptions& options = runtime_.options;
  if (!runtime_.limits_given) {
    rank_zero_warn("max_epochs is not set: training stops after " + std::to_string(*options.max_epochs) +
                   " epochs. Set max_epochs: -1 for no limit.");
  }
  state_.num_evaluation_batches.clear();
  if (!options.limit_val_batches || *options.limit_val_batches != Limit(0)) setup_validation();
  sanity_check();
  setup_training();
  agree_on_epoch();
  announce();
  if (!done()) train_epochs(resume);
  rank_zero_info("Training stopped: " + state_.end_reason + ".");
}

void FitLoop::train_epochs(const ResumePoint& resume) {
  const auto& interval = runtime_.options.val_check_interval;
  if (interval && interval->is_time()) {
    validation_interval_.emplace(interval->seconds());
    validation_interval_->start(steady_seconds());
  }
  // Before the hook: what it logs belongs to the first epoch.
  runtime_.metrics->begin_stage(Stage::kTrain);
  hooks_.run(Hook::kOnTrainStart, &Callback::on_train_start, &Module::on_train_start);
  ResumePoint from = resume;
  while (true) {
    run_epoch(from);
    from = {};
    check_signal();
    reload_if_due();
    agree_on_epoch();
    if (done()) break;
  }
  hooks_.run(Hook::kOnTrainEnd, &Callback::on_train_end, &Module::on_train_end);
}

void FitLoop::setup_validation() {
  LoaderList loaders = source_.evaluation(runtime_, Stage::kValidate);
  if (loaders.empty()) return;
  validation_ = std::make_unique<EvaluationLoop>(runtime_, precision_, Stage::kValidate, std::move(loaders),
                                                 runtime_.options.limit_val_batches, "limit_val_batches");
  state_.num_evaluation_batches = validation_->num_batches();
}

void FitLoop::sanity_check() {
  const std::int64_t steps = runtime_.options.num_sanity_val_steps.value_or(2);
  if (!validation_ || steps == 0) return;
  EvaluationLoop sanity(runtime_, precision_, Stage::kSanityCheck, validation_->loaders(),
                        steps < 0 ? runtime_.options.limit_val_batches : std::optional<Limit>(sanity_limit(steps)),
                        "num_sanity_val_steps");
  const Stage stage = std::exchange(state_.stage, Stage::kSanityCheck);
  hooks_.callbacks(Hook::kOnSanityCheckStart, &Callback::on_sanity_check_start);
  sanity.run();
  hooks_.callbacks(Hook::kOnSanityCheckEnd, &Callback::on_sanity_check_end);
  state_.stage = stage;
  state_.num_evaluation_batches = validation_->num_batches();
  check_signal();
}

Limit FitLoop::sanity_limit(std::int64_t steps) const {
  // Never more than validation itself will see.
  const auto& limit = runtime_.options.limit_val_batches;
  return limit && !limit->is_share() ? Limit(std::min(steps, limit->batches())) : Limit(steps);
}

void FitLoop::setup_training() {
  train_ = source_.train(runtime_);
  if (!train_) {
    throw MisuseError(
        "fit needs training data: pass a loader, or a data module (`data:` in a YAML file) whose train_dataloader() gives one, "
        "or let the module's own train_dataloader() do so.");
  }
  const auto& limit = runtime_.options.limit_train_batches;
  rank_batches_ = limited_batches(train_->size(), limit, "limit_train_batches");
  cursor_ = std::make_unique<LoaderCursor>(*train_, batch_cap(rank_batches_, limit));
  loaded_in_epoch_ = state_.epoch;
}

void FitLoop::announce() const {
  std::vector<LoaderInUse> loaders = {{"train", train_.get(), rank_batches_}};
  if (validation_) {
    const auto more = evaluation_loaders(Stage::kValidate, validation_->loaders(), validation_->num_batches());
    loaders.insert(loaders.end(), more.begin(), more.end());
  }
  announce_rank(runtime_, loaders);
}

void FitLoop::reload_if_due() {
  const std::int64_t every = runtime_.options.reload_dataloaders_every_n_epochs;
  if (every == 0 || state_.epoch - loaded_in_epoch_ < every) return;
  setup_training();
  setup_validation();
}

void FitLoop::agree_on_epoch() {
  const BoundaryOutcome outcome =
      runtime_.meet(BoundaryKind::kEpochStart, {rank_batches_.value_or(-1), train_->batch_size().value_or(0)});
  check_signal();
  std::vector<std::int64_t> batches;
  for (const BoundaryWords& words : outcome.words) batches.push_back(words[0]);
  plan_ = EpochPlan(batches, /*stop_with_first=*/!runtime_.module->automatic_optimization());
  state_.num_training_batches = plan_.iterations();
  const std::int64_t batch_size = outcome.words.front()[1];
  const auto agrees = [&](const BoundaryWords& words) { return words[1] == batch_size; };
  state_.full_batch_size = std::all_of(outcome.words.begin(), outcome.words.end(), agrees) ? batch_size : 0;
  const std::optional<std::int64_t> known = plan_.known() ? std::optional(plan_.iterations()) : std::nullopt;
  schedule_ = ValidationSchedule(runtime_.options.val_check_interval, runtime_.options.check_val_every_n_epoch, known,
                                 validation_ != nullptr && validation_->may_have_batches());
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
  state_.batch_idx = resume.batches_done - 1;
  state_.end_epoch_wish = false;
  hooks_.run(Hook::kOnTrainEpochStart, &Callback::on_train_epoch_start, &Module::on_train_epoch_start);
  // After the hooks that the interrupted run had run in this epoch, too: what they log shall not count twice.
  if (!resume.metrics.empty()) runtime_.metrics->restore_training_epoch(resume.metrics);
  {
    HookScope scope(runtime_, Hook::kTrainDataloader);
    cursor_->start_epoch(state_.epoch);
    for (std::int64_t done = 0; done < resume.batches_done && cursor_->has_next(); ++done) cursor_->take();
  }
  state_.loaders = {{train_.get(), resume.batches_done, resume.batches_done}};
  bool any_has_batch = resume.batches_done == 0 || !plan_.is_last(resume.batches_done - 1);
  if (!plan_.known() && runtime_.world_size() > 1) {
    state_.has_next_batch = cursor_->has_next();
    any_has_batch = runtime_.meet(BoundaryKind::kBatch).votes.has_next;
  } else if (!plan_.known()) {
    any_has_batch = cursor_->has_next();
  }
  bool completed = !any_has_batch;
  for (std::int64_t iteration = resume.batches_done; any_has_batch; ++iteration) {
    const Turn turn = run_turn(iteration);
    completed = turn.is_last || turn.end_epoch;
    check_signal();
    if (completed || stops_here()) break;
  }
  end_epoch(completed);
}

bool FitLoop::stops_here() const {
  const std::int64_t max_steps = runtime_.options.max_steps;
  return (max_steps >= 0 && state_.global_step >= max_steps) || (state_.stop_agreed && can_stop_early());
}

FitLoop::Turn FitLoop::run_turn(std::int64_t iteration) {
  Turn turn;
  turn.iteration = iteration;
  std::optional<Batch> batch;
  if (cursor_->has_next()) {
    HookScope scope(runtime_, Hook::kTrainDataloader);
    batch = cursor_->take();
    ++state_.loaders.front().batches;
  }
  state_.in_batch = true;
  state_.has_next_batch = cursor_->has_next();
  state_.batch_idx = iteration;
  plan_turn(turn);
  state_.is_last_batch = turn.is_last;
  votes_.begin_batch();
  StepOutput output;
  if (batch) {
    *batch = transfer_batch(runtime_, precision_, std::move(*batch), 0, 1);
    hooks_.run(Hook::kOnTrainBatchStart, &Callback::on_train_batch_start, &Module::on_train_batch_start, *batch, iteration);
  } else {
    runtime_.metrics->begin_batch({0, 0, 1});
  }
  const bool skips = std::exchange(state_.skip_epoch_wish, false);
  if (skips && runtime_.world_size() == 1) {
    turn.end_epoch = true;
    state_.in_batch = false;
    runtime_.metrics->end_batch();
    schedulers_.step("epoch", /*on_metric=*/false);
    return turn;
  }
  // A vote travels with a reduction, which may come only at the end of the window.
  state_.end_epoch_wish |= skips;
  output = optimize(turn, batch && !skips ? &*batch : nullptr);
  learn_from_votes(turn);
  state_.step_unfinished = turn.ends_window;
  if (turn.ends_window) schedulers_.step("step", /*on_metric=*/false);
  if (turn.is_last || turn.end_epoch) schedulers_.step("epoch", /*on_metric=*/false);
  if (batch && !skips) {
    hooks_.run(Hook::kOnTrainBatchEnd, &Callback::on_train_batch_end, &Module::on_train_batch_end, output, *batch, iteration);
  } else {
    // Whoever saves checkpoints after a step meets the other ranks there, so a rank without a batch comes too.
    hooks_.callbacks_if(is_monitor, Hook::kOnTrainBatchEnd, &Callback::on_train_batch_end, output, Batch(), iteration);
  }
  finish_turn(turn);
  return turn;
}

void FitLoop::plan_turn(Turn& turn) {
  const std::int64_t every = state_.accumulate_grad_batches;
  const bool automatic = runtime_.module->automatic_optimization();
  turn.starts_window = turn.iteration % every == 0;
  turn.ends_window = (turn.iteration + 1) % every == 0;
  if (runtime_.world_size() == 1) {
    turn.is_last = !state_.has_next_batch || plan_.is_last(turn.iteration);
  } else if (plan_.known()) {
    turn.is_last = plan_.is_last(turn.iteration);
  } else if (every > 1 || !automatic) {
    // Nothing tells in time which batch is the last, so ranks ask each other. A rare case, and the only one that pays for it.
    const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kBatch);
    const auto has_next = [](const Votes& votes) { return votes.has_next; };
    turn.is_last =
        automatic ? !outcome.votes.has_next : !std::all_of(outcome.rank_votes.begin(), outcome.rank_votes.end(), has_next);
  }
  turn.ends_window |= turn.is_last;
}

StepOutput FitLoop::optimize(const Turn& turn, const Batch* batch) {
  if (runtime_.module->automatic_optimization()) {
    if (runtime_.optimizers.empty()) return forward_only(turn, batch);
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
    return;
  }
  if (!votes_.reduced()) return;
  turn.end_epoch = votes_.agreed().end_epoch;
  if (!plan_.known() && state_.accumulate_grad_batches == 1 && runtime_.module->automatic_optimization()) {
    turn.is_last = !votes_.agreed().has_next;
    state_.is_last_batch = turn.is_last;
  }
}

void FitLoop::finish_turn(const Turn& turn) {
  state_.in_batch = false;
  runtime_.metrics->end_batch();
  ++state_.total_batch_idx;
  if (turn.ends_window) {
    const std::int64_t every = runtime_.options.log_every_n_steps.value_or(50);
    const bool due = every > 0 && ((state_.logging_step + 1) % every == 0 || state_.stop_agreed);
    rows_.write_local_step(state_.logging_step, /*to_rank_zero=*/false);
    if (due) rows_.write(runtime_.meet(BoundaryKind::kTrainStep), state_.logging_step, /*epoch_end=*/false);
  }
  if (!turn.end_epoch) validate_if_due(turn);
  if (turn.ends_window) {
    schedulers_.step("step", /*on_metric=*/true);
    ++state_.logging_step;
    state_.step_unfinished = false;
  }
}

bool FitLoop::validation_time_passed() {
  // Asking costs a meeting, so that ranks ask only now and then, in the same turns.
  if (!validation_interval_ || !validation_interval_->batch_done()) return false;
  const SharedInterval::Word mine = validation_interval_->propose(steady_seconds());
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kBatch, {mine.passed, mine.batches_on});
  const BoundaryWords& first = outcome.words.front();
  return validation_interval_->accept({first[0], first[1]}, steady_seconds());
}

void FitLoop::validate_if_due(const Turn& turn) {
  if (!validation_ || !validation_->may_have_batches()) return;
  const bool time_passed = schedule_.epoch_enabled(state_.epoch) && validation_time_passed();
  const bool stopping = schedule_.epoch_enabled(state_.epoch) && state_.stop_agreed && can_stop_early();
  const std::int64_t total = state_.total_batch_idx - 1;
  if (!stopping && !time_passed && !schedule_.due(state_.epoch, turn.iteration, total, turn.is_last)) return;
  if (turn.ends_window) hooks_.module(Hook::kOnValidationModelZeroGrad, &Module::on_validation_model_zero_grad);
  validation_->run();
  if (validation_interval_) validation_interval_->start(steady_seconds());
}

void FitLoop::end_epoch(bool completed) {
  state_.epoch_ending = true;
  runtime_.meet(BoundaryKind::kEpochReached);
  hooks_.callbacks_if([](const Callback& callback) { return !is_monitor(callback); }, Hook::kOnTrainEpochEnd,
                      &Callback::on_train_epoch_end);
  hooks_.module(Hook::kOnTrainEpochEnd, &Module::on_train_epoch_end);
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kEpochEnd);
  hooks_.callbacks_if(is_monitor, Hook::kOnTrainEpochEnd, &Callback::on_train_epoch_end);
  if (completed) schedulers_.step("epoch", /*on_metric=*/true);
  rows_.write(outcome, std::max<std::int64_t>(0, state_.logging_step - 1), /*epoch_end=*/true);
  rows_.save();
  runtime_.metrics->reset_epoch();
  ++state_.epoch;
  state_.batch_idx = -1;
  state_.epoch_ending = false;
}

void FitLoop::check_signal() const {
  if (state_.signal_agreed == 0) return;
  throw Interrupted(state_.signal_agreed,
                    "in epoch " + std::to_string(state_.epoch) + " after global step " + std::to_string(state_.global_step));
}

}  // namespace levin
