#include "levin/core/loops/evaluation_loop.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "levin/core/loops/batch_transfer.h"
#include "levin/core/loops/epoch_plan.h"
#include "levin/core/loops/evaluation_hooks.h"
#include "levin/core/loops/loader_cursor.h"
#include "levin/core/rows/metric_rows.h"
#include "levin/core/run/signals.h"

namespace levin {

namespace {

/// The mode (training or evaluation) of every submodule, parents before children.
using Modes = std::vector<std::pair<torch::nn::Module*, bool>>;

void remember_modes(torch::nn::Module& module, Modes& modes) {
  modes.emplace_back(&module, module.is_training());
  for (const auto& child : module.children()) remember_modes(*child, modes);
}

void restore_modes(const Modes& modes) {
  // train() changes the whole subtree; the entries of the children come later and set them right again.
  for (const auto& [module, training] : modes) module->train(training);
}

}  // namespace

EvaluationLoop::EvaluationLoop(Trainer::Runtime& runtime, const Precision& precision, Stage stage, LoaderList loaders,
                               std::optional<Limit> limit, const char* limit_name)
    : runtime_(runtime),
      precision_(precision),
      hooks_(runtime),
      stage_(stage),
      names_(evaluation_hooks(stage)),
      loaders_(std::move(loaders)) {
  const bool disabled = limit && (limit->is_share() ? limit->share() == 0.0 : limit->batches() == 0);
  // Not this rank's number of batches: a rank without any still takes part.
  may_have_batches_ = !loaders_.empty() && !disabled;
  for (const LoaderPtr& loader : loaders_) {
    const std::optional<std::int64_t> batches = limited_batches(loader->size(), limit, limit_name);
    num_batches_.push_back(batches.value_or(-1));
    caps_.push_back(batch_cap(batches, limit));
  }
}

/// The time in which the run is in this stage: what the enclosing one needs of the state comes back at the end.
class EvaluationLoop::StageScope {
 public:
  explicit StageScope(EvaluationLoop& loop)
      : loop_(loop),
        state_(loop.runtime_.state),
        outer_stage_(std::exchange(state_.stage, loop.stage_)),
        outer_batch_(state_.batch_idx),
        outer_is_last_(state_.is_last_batch) {
    std::vector<LoaderProgress> progress;
    for (const LoaderPtr& loader : loop.loaders_) progress.push_back({.loader = loader.get()});
    outer_loaders_ = std::exchange(state_.loaders, std::move(progress));
    state_.num_evaluation_batches = loop.num_batches_;
    state_.evaluation_steps.resize(std::max(state_.evaluation_steps.size(), loop.loaders_.size()));
    loop.runtime_.metrics->begin_stage(loop.stage_);
    remember_modes(*loop.runtime_.module, modes_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

  /// The hooks that follow may save a checkpoint, whose place is the training epoch's.
  void batches_done() {
    state_.dataloader_idx = 0;
    state_.batch_idx = outer_batch_;
    state_.is_last_batch = outer_is_last_;
  }
  /// Not in a destructor: hooks may throw.
  void end() {
    restore_modes(modes_);
    loop_.hooks_.module(loop_.names_.model_train_hook, loop_.names_.model_train);
    loop_.runtime_.metrics->reset_epoch();
    loop_.runtime_.metrics->end_stage();
    MetricRows(loop_.runtime_).save();
    state_.loaders = outer_loaders_;
    state_.stage = outer_stage_;
  }

 private:
  EvaluationLoop& loop_;
  LoopState& state_;
  Stage outer_stage_;
  std::int64_t outer_batch_;
  bool outer_is_last_;
  std::vector<LoaderProgress> outer_loaders_;
  Modes modes_;
};

void EvaluationLoop::run() {
  // Standalone evaluation on one process may use inference mode; inside fit tensors must stay usable for training.
  const bool inference = runtime_.options.inference_mode && !runtime_.state.fitting && runtime_.world_size() == 1;
  const c10::InferenceMode inference_mode(inference);
  const at::AutoGradMode no_gradients(false);
  StageScope scope(*this);
  runtime_.strategy->synchronize_buffers(*runtime_.module);
  hooks_.module(names_.model_eval_hook, names_.model_eval);
  hooks_.run(names_.start.hook, names_.start.callback, names_.start.module);
  hooks_.run(names_.epoch_start.hook, names_.epoch_start.callback, names_.epoch_start.module);
  predictions_.clear();
  samples_ = 0;
  for (std::size_t index = 0; index < loaders_.size(); ++index) run_loader(static_cast<std::int64_t>(index));
  scope.batches_done();

  meet_after_batches();
  // What a rank has seen until it was told to stop is not worth a row, nor a decision of a monitor.
  check_signal();
  hooks_.run(names_.epoch_end.hook, names_.epoch_end.callback, names_.epoch_end.module);
  // Every rank reaches this because all have met after their last batches, and go on alike.
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kEpochEnd);
  if (stage_ != Stage::kSanityCheck) {
    MetricRows(runtime_).write(outcome, runtime_.state.logging_step, /*epoch_end=*/true);
  }
  if (stage_ == Stage::kValidate && runtime_.state.fitting) {
    runtime_.state.position.place = Place::kValidationEnd;
    runtime_.state.position.hooks_done = 0;
  }
  run_end_hooks();
  scope.end();
}

void EvaluationLoop::run_end() {
  const at::AutoGradMode no_gradients(false);
  StageScope scope(*this);
  runtime_.module->eval();
  run_end_hooks();
  scope.end();
}

void EvaluationLoop::run_end_hooks() {
  if (stage_ == Stage::kValidate && runtime_.state.fitting) {
    HookCounter counter(runtime_.state.position.hooks_done);
    hooks_.run_counted(counter, names_.end.hook, names_.end.callback, names_.end.module);
  } else {
    hooks_.run(names_.end.hook, names_.end.callback, names_.end.module);
  }
  // Every rank reaches this because an evaluation ends with it, also one that a resumed run only ends.
  runtime_.meet(BoundaryKind::kEvaluationEnd);
}

void EvaluationLoop::meet_after_batches() {
  LoopState& state = runtime_.state;
  std::int64_t batches = 0;
  for (const LoaderProgress& progress : state.loaders) batches += progress.batches;
  // Every rank reaches this because each runs its own batches, however many, without waiting for others.
  const BoundaryOutcome outcome = runtime_.meet(BoundaryKind::kEpochReached, {batches, samples_});
  state.evaluation_totals = {};
  for (const BoundaryWords& words : outcome.words) {
    state.evaluation_totals.batches = std::max(state.evaluation_totals.batches, words[0]);
    state.evaluation_totals.samples += words[1];
  }
}

void EvaluationLoop::check_signal() const {
  const LoopState& state = runtime_.state;
  if (state.signal_agreed == 0) return;
  throw Interrupted(state.signal_agreed, "during " + std::string(stage_name(stage_)) + " in epoch " +
                                             std::to_string(state.epoch) + " after global step " +
                                             std::to_string(state.global_step));
}

void EvaluationLoop::run_loader(std::int64_t dataloader_idx) {
  LoopState& state = runtime_.state;
  const auto index = static_cast<std::size_t>(dataloader_idx);
  state.dataloader_idx = dataloader_idx;
  predictions_.emplace_back();
  LoaderCursor cursor(*loaders_[index], caps_[index]);
  {
    HookScope scope(runtime_, names_.dataloader_hook);
    cursor.start_epoch(state.epoch);
  }
  for (std::int64_t batch_idx = 0; cursor.has_next(); ++batch_idx) {
    // A signal ends this rank's part; the others learn of it at the boundary that follows.
    if (SignalScope::received() != 0) return;
    Batch batch = [&] {
      HookScope scope(runtime_, names_.dataloader_hook);
      return cursor.take();
    }();
    state.batch_idx = batch_idx;
    state.is_last_batch = !cursor.has_next();
    ++state.loaders[index].batches;
    samples_ += batch.batch_size();
    state.in_batch = true;
    run_batch(std::move(batch), batch_idx, dataloader_idx);
    state.in_batch = false;
  }
}

void EvaluationLoop::run_batch(Batch batch, std::int64_t batch_idx, std::int64_t dataloader_idx) {
  const auto loaders = static_cast<std::int64_t>(loaders_.size());
  batch = transfer_batch(runtime_, precision_, std::move(batch), dataloader_idx, loaders);
  hooks_.run(names_.batch_start.hook, names_.batch_start.callback, names_.batch_start.module, batch, batch_idx, dataloader_idx);
  if (stage_ == Stage::kPredict) {
    Batch prediction;
    {
      const Precision::Forward forward(precision_);
      prediction = hooks_.module(Hook::kPredictStep, &Module::predict_step, batch, batch_idx);
    }
    hooks_.run(Hook::kOnPredictBatchEnd, &Callback::on_predict_batch_end, &Module::on_predict_batch_end, prediction, batch,
               batch_idx, dataloader_idx);
    predictions_.back().push_back(std::move(prediction));
  } else {
    StepOutput output;
    {
      const Precision::Forward forward(precision_);
      output = hooks_.module(names_.step_hook, names_.step, batch, batch_idx);
    }
    hooks_.run(names_.batch_end.hook, names_.batch_end.callback, names_.batch_end.module, output, batch, batch_idx,
               dataloader_idx);
    // As in Lightning, step values of an evaluation are written at every batch; they are this rank's own.
    if (stage_ != Stage::kSanityCheck) {
      const std::int64_t step = runtime_.state.evaluation_steps[static_cast<std::size_t>(dataloader_idx)]++;
      MetricRows(runtime_).write_local_step(step, /*to_rank_zero=*/true);
    }
  }
  runtime_.metrics->end_batch();
}

std::vector<MetricMap> EvaluationLoop::results() const {
  const std::string marker = "/dataloader_idx_";
  const MetricMap& logged = runtime_.metrics->logged_metrics();
  std::vector<MetricMap> results(loaders_.size());
  for (const auto& [name, value] : runtime_.metrics->callback_metrics()) {
    // Of a key that is forked as well, callbacks see the plain name too, which is not logged.
    if (!logged.contains(name)) continue;
    const std::size_t found = name.rfind(marker);
    for (std::size_t index = 0; index < results.size(); ++index) {
      const bool of_this_loader = found == std::string::npos || name.substr(found + marker.size()) == std::to_string(index);
      if (of_this_loader) results[index][name] = value;
    }
  }
  return results;
}

}  // namespace levin
