#include "levin/core/trial_runner.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <utility>

#include "levin/core/console/console.h"
#include "levin/core/run/run_setup.h"
#include "levin/core/state/module_attachment.h"
#include "levin/core/state/state_scope.h"
#include "levin/core/train/entry_point.h"
#include "levin/core/train/thread_of_run.h"

namespace levin {

namespace {

TrainerOptions options_of_trial(TrainerOptions options, const Trial& trial) {
  options.max_steps = trial.steps;
  options.max_epochs = -1;
  options.min_epochs = options.min_steps = std::nullopt;
  options.max_time = std::nullopt;
  options.logger = false;
  options.callbacks.clear();
  if (trial.observer) options.callbacks = {trial.observer};
  options.limit_val_batches = 0;
  options.num_sanity_val_steps = options.log_every_n_steps = 0;
  options.enable_checkpointing = options.enable_progress_bar = options.enable_model_summary = false;
  options.profiler = {};
  options.enable_autolog_hparams = false;
  options.log_level = std::max(options.log_level, LogLevel::kWarning);
  return options;
}

}  // namespace

void TrialRunner::run(const Trial& trial) {
  Module& module = run_.module();
  const StateScope scope(run_, SideComputation::kTrial);
  ModuleAttachment::detach(run_);
  const auto go_on = c10::make_scope_exit([&] {
    for (const at::Tensor& parameter : module.parameters()) parameter.mutable_grad().reset();
    run_.metrics->clear();
    ModuleAttachment::attach(module, run_);
    configure_console(run_.setup);
  });
  TrainerOptions options = options_of_trial(run_.options(), trial);
  options.strategy = run_.setup.strategy;
  Trainer trainer(options);
  TrainerState& inner = TrainerState::of(trainer);
  inner.entry.is_trial = true;
  inner.optimizer_override = run_.optimizer_override;
  inner.setup.data_seed = run_.setup.data_seed;
  inner.setup.learning_rate = run_.setup.learning_rate;
  inner.setup.batch_size = trial.batch_size ? trial.batch_size : run_.setup.batch_size;
  DataSource source = source_;
  source.forget_ahead();
  const ThreadOfRun thread(inner);
  EntryPoint entry(inner, module, std::move(source), Stage::kTrain, {});
  entry.run_trial([&] { FitLoop(inner, entry.precision(), entry.source()).run({}); });
}

const BatchLoader& TrialRunner::loader() { return source_.train_ahead(run_.module(), run_.setup, run_.hooks); }

void TrialRunner::set_learning_rate(double lr) { run_.setup.learning_rate = lr; }
void TrialRunner::set_batch_size(std::int64_t samples) { run_.setup.batch_size = samples; }

}  // namespace levin
