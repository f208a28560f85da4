#include "levin/core/train/evaluation_loop.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "levin/core/base/process.h"
#include "levin/core/diagnostics/torch_messages.h"
#include "levin/core/run/signal_scope.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/state/state_scope.h"
#include "levin/core/step/optimizers.h"

namespace levin {

/// The hooks of one kind of evaluation.
struct EvaluationHooks {
  template <class... Args>
  struct OfModule {
    Hook hook;
    void (Module::*function)(Args...);
  };
  template <class... Args>
  struct OfBoth {
    Hook hook;
    void (Callback::*callback)(Trainer&, Module&, Args...);
    void (Module::*module)(Args...);
  };

  std::string_view next_action;  ///< Lightning's name of what takes the next batch
  OfModule<> model_eval;
  OfModule<> model_train;
  OfBoth<> start;
  OfBoth<> epoch_start;
  OfBoth<const Batch&, std::int64_t, std::int64_t> batch_start;
  OfModule<const Batch&, std::int64_t> step;                                      ///< null for prediction, and so is
  OfBoth<const StepOutput&, const Batch&, std::int64_t, std::int64_t> batch_end;  ///< this: its output is a Batch
  OfBoth<> epoch_end;
  OfBoth<> end;
};

namespace {

const EvaluationHooks& hooks_of(Stage stage) {
  using C = Callback;
  using M = Module;
  static const EvaluationHooks validation{
      .next_action = "[_EvaluationLoop].val_next",
      .model_eval = {Hook::kOnValidationModelEval, &M::on_validation_model_eval},
      .model_train = {Hook::kOnValidationModelTrain, &M::on_validation_model_train},
      .start = {Hook::kOnValidationStart, &C::on_validation_start, &M::on_validation_start},
      .epoch_start = {Hook::kOnValidationEpochStart, &C::on_validation_epoch_start, &M::on_validation_epoch_start},
      .batch_start = {Hook::kOnValidationBatchStart, &C::on_validation_batch_start, &M::on_validation_batch_start},
      .step = {Hook::kValidationStep, &M::validation_step},
      .batch_end = {Hook::kOnValidationBatchEnd, &C::on_validation_batch_end, &M::on_validation_batch_end},
      .epoch_end = {Hook::kOnValidationEpochEnd, &C::on_validation_epoch_end, &M::on_validation_epoch_end},
      .end = {Hook::kOnValidationEnd, &C::on_validation_end, &M::on_validation_end}};
  static const EvaluationHooks test{.next_action = "[_EvaluationLoop].test_next",
                                    .model_eval = {Hook::kOnTestModelEval, &M::on_test_model_eval},
                                    .model_train = {Hook::kOnTestModelTrain, &M::on_test_model_train},
                                    .start = {Hook::kOnTestStart, &C::on_test_start, &M::on_test_start},
                                    .epoch_start = {Hook::kOnTestEpochStart, &C::on_test_epoch_start, &M::on_test_epoch_start},
                                    .batch_start = {Hook::kOnTestBatchStart, &C::on_test_batch_start, &M::on_test_batch_start},
                                    .step = {Hook::kTestStep, &M::test_step},
                                    .batch_end = {Hook::kOnTestBatchEnd, &C::on_test_batch_end, &M::on_test_batch_end},
                                    .epoch_end = {Hook::kOnTestEpochEnd, &C::on_test_epoch_end, &M::on_test_epoch_end},
                                    .end = {Hook::kOnTestEnd, &C::on_test_end, &M::on_test_end}};
  static const EvaluationHooks prediction{
      .next_action = "[_PredictionLoop].predict_next",
      .model_eval = {Hook::kOnPredictModelEval, &M::on_predict_model_eval},
      .model_train = {Hook::kOnPredictModelTrain, &M::on_predict_model_train},
      .start = {Hook::kOnPredictStart, &C::on_predict_start, &M::on_predict_start},
      .epoch_start = {Hook::kOnPredictEpochStart, &C::on_predict_epoch_start, &M::on_predict_epoch_start},
      .batch_start = {Hook::kOnPredictBatchStart, &C::on_predict_batch_start, &M::on_predict_batch_start},
      .step = {Hook::kPredictStep, nullptr},
      .batch_end = {Hook::kOnPredictBatchEnd, nullptr, nullptr},
      .epoch_end = {Hook::kOnPredictEpochEnd, &C::on_predict_epoch_end, &M::on_predict_epoch_end},
      .end = {Hook::kOnPredictEnd, &C::on_predict_end, &M::on_predict_end}};
  if (stage == Stage::kTest) return test;
  return stage == Stage::kPredict ? prediction : validation;
}

std::pair<const std::optional<Limit>&, const char*> limit_of(const TrainerOptions& options, Stage stage) {
  if (stage == Stage::kTest) return {options.limit_test_batches, "limit_test_batches"};
  if (stage == Stage::kPredict) return {options.limit_predict_batches, "limit_predict_batches"};
  return {options.limit_val_batches, "limit_val_batches"};
}

}  // namespace

bool EvaluationLoop::takes_any(const TrainerOptions& options, Stage stage) {
  const auto& limit = limit_of(options, stage).first;
  return !limit || takes_batches(*limit);
}

EvaluationLoop::EvaluationLoop(TrainerState& run, const PrecisionPolicy& precision, Stage stage, LoaderList loaders,
                               bool keep_predictions)
    : run_(run),
      precision_(precision),
      hooks_(run.hooks),
      rows_(run.setup.loggers, run.is_global_zero(), run.progress, run.hooks),
      stage_(stage),
      names_(hooks_of(stage)),
      loaders_(std::move(loaders)),
      keep_predictions_(keep_predictions) {
  const auto [limit, limit_name] = limit_of(run.options(), stage);
  // Does not depend on this rank's number of batches: a rank without any still takes part.
  may_have_batches_ = !loaders_.empty() && takes_any(run.options(), stage);
  for (const LoaderPtr& loader : loaders_) {
    caps_.push_back(batch_cap(limited_batches(loader->size(), limit, limit_name), limit));
    num_batches_.push_back(caps_.back().value_or(-1));
  }
}

/// One pass: the stage, with what it changes in the module and in what is recorded.
class EvaluationLoop::Pass {
 public:
  explicit Pass(EvaluationLoop& loop)
      : loop_(loop), stage_(loop.run_.progress, loop.stage_), modes_(std::make_shared<const ModuleModes>(loop.run_.module())) {
    Progress& progress = loop.run_.progress;
    for (const LoaderPtr& loader : loop.loaders_) progress.batch.loaders.push_back({.loader = loader.get()});
    progress.num_evaluation_batches = loop.num_batches_;
    progress.evaluation_steps.resize(std::max(progress.evaluation_steps.size(), loop.loaders_.size()));
    loop.run_.metrics->begin_stage(loop.stage_);
    loop.run_.modes_after_evaluation = modes_;
  }
  ~Pass() {
    // After an error or a signal a checkpoint may be saved while the module is still in evaluation mode.
    if (std::uncaught_exceptions() == exceptions_before_) loop_.run_.modes_after_evaluation.reset();
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  /// Hooks that follow see the batches of the training epoch.
  void end_batches() { stage_.end_batches(); }
  /// Not in a destructor: hooks may throw.
  void end() {
    modes_->restore();
    loop_.hooks_.module(loop_.names_.model_train.hook, loop_.names_.model_train.function);
    loop_.run_.metrics->reset_epoch();
    loop_.run_.metrics->end_stage();
    save_rows(loop_.run_.setup.loggers, loop_.hooks_);
  }

 private:
  EvaluationLoop& loop_;
  StageScope stage_;
  std::shared_ptr<const ModuleModes> modes_;
  int exceptions_before_ = std::uncaught_exceptions();
};

void EvaluationLoop::run() {
  // Standalone evaluation on one process may use inference mode; inside fit tensors must stay usable for training.
  const bool inference = run_.options().inference_mode && !run_.progress.fitting && run_.world_size() == 1;
  const c10::InferenceMode inference_mode(inference);
  const at::AutoGradMode no_gradients(false);
  Pass pass(*this);
  if (run_.progress.fitting) run_.weights.evaluate();
  run_.strategy().synchronize_buffers(run_.module());
  hooks_.module(names_.model_eval.hook, names_.model_eval.function);
  run_hooks(names_.start);
  run_hooks(names_.epoch_start);
  predictions_.clear();
  samples_ = 0;
  for (std::size_t index = 0; index < loaders_.size(); ++index) run_loader(static_cast<std::int64_t>(index));
  pass.end_batches();

  meet_after_batches();
  // An interrupted evaluation has no row, and no monitor decides by it.
  run_.wishes.throw_if_signalled(format("during {} {}", stage_name(stage_), run_.progress.where()));
  run_hooks(names_.epoch_end);
  // Every rank reaches this because all have met after their last batches.
  const BoundaryOutcome outcome = run_.boundaries.meet(BoundaryKind::kEpochEnd);
  if (stage_ != Stage::kSanityCheck) {
    run_.nan.look_at_row(outcome.logger_row);
    rows_.write(outcome, row_step(), /*epoch_end=*/true);
  }
  if (run_.progress.fitting) run_.weights.train();
  const bool before_training = run_.resume.position.place == Place::kTrainStart;
  if (run_.progress.fitting && before_training) SchedulerRunner::warn_of_monitors(run_.parts, *run_.metrics);
  run_hooks(names_.end);
  // Every rank reaches this because an evaluation ends with it.
  run_.boundaries.meet(BoundaryKind::kEvaluationEnd);
  pass.end();
}

template <class Hooks, class... Args>
void EvaluationLoop::run_hooks(const Hooks& hooks, const Args&... args) {
  hooks_.run(hooks.hook, hooks.callback, hooks.module, args...);
}

std::int64_t EvaluationLoop::row_step() const {
  const LoopPosition& position = run_.resume.position;
  const bool is_counted = position.iteration.is_finished && position.iteration.ends_window && run_.progress.fitting;
  return run_.progress.logging_step - (is_counted ? 1 : 0);
}

void EvaluationLoop::meet_after_batches() {
  std::int64_t batches = 0;
  for (const LoaderProgress& loader : run_.progress.batch.loaders) batches += loader.batches;
  // Every rank reaches this because each runs its own batches, however many, without waiting for others.
  const BoundaryOutcome outcome = run_.boundaries.meet(BoundaryKind::kEpochReached, {batches, samples_});
  EvaluationTotals& totals = run_.progress.evaluation_totals = {};
  for (const BoundaryPayload& payload : outcome.payloads) {
    totals.batches = std::max(totals.batches, payload[0]);
    totals.samples += payload[1];
  }
}

void EvaluationLoop::run_loader(std::int64_t dataloader_idx) {
  BatchProgress& progress = run_.progress.batch;
  const auto index = static_cast<std::size_t>(dataloader_idx);
  progress.dataloader_idx = dataloader_idx;
  if (keep_predictions_) predictions_.emplace_back();
  if (cursors_.size() == index) cursors_.emplace_back(*loaders_[index], caps_[index]);
  LoaderCursor& cursor = cursors_[index];
  {
    const auto scope = hooks_.enter(dataloaders_hook(stage_));
    cursor.start_epoch(run_.progress.epoch);
  }
  for (std::int64_t batch_idx = 0; cursor.has_next(); ++batch_idx) {
    // A signal ends this rank's part; the others learn of it at the next boundary.
    if (run_.wishes.received_signal() != 0) return;
    Batch batch = [&] {
      const auto scope = hooks_.enter(dataloaders_hook(stage_));
      const ProfiledAction action(hooks_.profiler(), names_.next_action);
      return cursor.take();
    }();
    progress.batch_idx = batch_idx;
    progress.is_last = !cursor.has_next();
    ++progress.loaders[index].batches;
    samples_ += batch.batch_size();
    progress.in_work = true;
    run_batch(std::move(batch), batch_idx, dataloader_idx);
    if (hooks_.profiler() != nullptr) hooks_.profiler()->batch_done();
    progress.in_work = false;
  }
  if (stage_ == Stage::kSanityCheck) return;
  const auto scope = hooks_.enter(dataloaders_hook(stage_));
  cursor.check_size(loaders_.size() == 1 ? std::string(stage_name(stage_)) : format("{} {}", stage_name(stage_), index));
}

void EvaluationLoop::run_batch(Batch given, std::int64_t batch_idx, std::int64_t dataloader_idx) {
  std::optional<Batch> in_work = std::move(given);
  const FailedBatchScope scope(run_.failed_batch, in_work);
  Batch& batch = *in_work;
  const auto loaders = static_cast<std::int64_t>(loaders_.size());
  batch =
      transfer_batch(hooks_, *run_.metrics, run_.strategy().device(), precision_, std::move(batch), dataloader_idx, loaders);
  run_hooks(names_.batch_start, batch, batch_idx, dataloader_idx);
  if (stage_ == Stage::kPredict) {
    Batch prediction;
    {
      const PrecisionPolicy::Forward forward(precision_);
      prediction = hooks_.module(Hook::kPredictStep, &Module::predict_step, batch, batch_idx);
    }
    hooks_.run(Hook::kOnPredictBatchEnd, &Callback::on_predict_batch_end, &Module::on_predict_batch_end, prediction, batch,
               batch_idx, dataloader_idx);
    if (keep_predictions_) predictions_.back().push_back(std::move(prediction));
  } else {
    run_.evaluation_output = {};  // of a step that threw
    {
      const PrecisionPolicy::Forward forward(precision_);
      hooks_.module(names_.step.hook, names_.step.function, batch, batch_idx);
    }
    const StepOutput output = std::exchange(run_.evaluation_output, {});
    run_hooks(names_.batch_end, output, batch, batch_idx, dataloader_idx);
    // As in Lightning, step values of an evaluation are written at every batch; they are this rank's own.
    if (stage_ != Stage::kSanityCheck) {
      const std::int64_t batch_of_all_passes = run_.progress.evaluation_steps[static_cast<std::size_t>(dataloader_idx)]++;
      rows_.write_local_step(*run_.metrics, row_step(), batch_of_all_passes);
    }
  }
  run_.metrics->end_batch();
}

std::vector<MetricMap> EvaluationLoop::results() const {
  const MetricMap& logged = run_.metrics->logged_metrics();
  std::vector<MetricMap> results(loaders_.size());
  for (const auto& [name, value] : run_.metrics->callback_metrics()) {
    // Callbacks also see the plain name of a forked key, which is not logged.
    if (!logged.contains(name)) continue;
    for (std::size_t index = 0; index < results.size(); ++index) {
      if (run_.metrics->is_of_loader(name, static_cast<std::int64_t>(index))) results[index][name] = value;
    }
  }
  return results;
}

void FitValidation::set_up() {
  run_.progress.num_evaluation_batches.clear();
  loop_.reset();
  if (!EvaluationLoop::takes_any(run_.options(), Stage::kValidate)) return;
  LoaderList loaders = source_.evaluation(Stage::kValidate, run_.module(), run_.setup, hooks_);
  if (loaders.empty()) return;
  loop_ = std::make_unique<EvaluationLoop>(run_, precision_, Stage::kValidate, std::move(loaders));
  run_.progress.num_evaluation_batches = loop_->num_batches();
}

std::int64_t FitValidation::sanity_steps() const {
  return run_.options().validate_before_training ? 0 : run_.options().num_sanity_val_steps.value_or(2);
}

void FitValidation::set_up_first() {
  std::optional<StageScope> stage;
  if (sanity_steps() != 0) stage.emplace(run_.progress, Stage::kSanityCheck);
  set_up();
}

void FitValidation::sanity_check() {
  const std::int64_t steps = sanity_steps();
  if (!loop_ || steps == 0) return;
  const StateScope scope(run_, SideComputation::kSanityCheck);
  EvaluationLoop sanity(run_, precision_, Stage::kSanityCheck, loop_->loaders());
  if (steps > 0) sanity.shorten(steps);
  {
    const StageScope stage(run_.progress, Stage::kSanityCheck);
    hooks_.callbacks(Hook::kOnSanityCheckStart, &Callback::on_sanity_check_start);
    sanity.run();
    hooks_.callbacks(Hook::kOnSanityCheckEnd, &Callback::on_sanity_check_end);
  }
}

void FitValidation::validate_before_training() {
  if (!run_.options().validate_before_training || !run_.progress.validates) return;
  const StateScope scope(run_, SideComputation::kValidationBeforeTraining);
  loop_->run();
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
  // Asking costs a meeting, so ranks ask only now and then, in the same iterations.
  if (!interval_ || !interval_->batch_done()) return false;
  const SharedInterval::Proposal mine = interval_->propose(steady_seconds());
  // Every rank reaches this because rank 0 has said in which batch all ask next.
  const BoundaryOutcome outcome = run_.boundaries.meet(BoundaryKind::kBatch, {mine.passed, mine.batches_on});
  const BoundaryPayload& first = outcome.payloads.front();
  return interval_->accept({first[0], first[1]}, steady_seconds());
}

void FitValidation::run_if_due(Iteration& iteration, bool stopping, bool inside) {
  const Progress& progress = run_.progress;
  const bool may_run = schedule_.epoch_enabled(progress.epoch) && !iteration.end_epoch;
  const bool by_time = may_run && time_passed();
  const bool by_batches =
      may_run && schedule_.due(progress.epoch, iteration.index, progress.total_batch_idx - 1, iteration.is_last);
  const bool is_due = iteration.validates || by_time || by_batches;
  iteration.validation_is_left = may_run && stopping && inside && !is_due;
  if (is_due || (may_run && stopping && !inside)) run(iteration);
}

void FitValidation::run_if_due_at_end(const Iteration& iteration) {
  const Progress& progress = run_.progress;
  const auto is_due = [&](bool is_last) {
    return schedule_.due(progress.epoch, iteration.index, progress.total_batch_idx - 1, is_last);
  };
  if (schedule_.epoch_enabled(progress.epoch) && is_due(true) && !is_due(false)) run(iteration);
}

void FitValidation::run(const Iteration& iteration) {
  run_.resume.position.iteration = iteration;
  begin_place(run_, Place::kValidation);
  save_requested(run_);
  run_here(iteration);
  begin_place(run_, Place::kValidationEnd);
  save_requested(run_);
}

void FitValidation::run_here(const Iteration& iteration) {
  if (iteration.ends_window) hooks_.module(Hook::kOnValidationModelZeroGrad, &Module::on_validation_model_zero_grad);
  loop_->run();
  if (interval_) interval_->start(steady_seconds());
}

}  // namespace levin
