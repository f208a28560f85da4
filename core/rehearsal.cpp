#include "levin/core/rehearsal.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "levin/core/engine/resume/checkpoint_state.h"
#include "levin/core/engine/run/entry_point.h"
#include "levin/core/random/rng_state.h"

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

RehearsingCallback::~RehearsingCallback() = default;

void Rehearsal::run(const Trial& trial) {
  const RandomScope random;
  Module& module = run_.module();
  const ModuleModes modes(module);
  std::vector<std::pair<at::Tensor, bool>> trained;
  for (const at::Tensor& parameter : module.parameters()) trained.emplace_back(parameter, parameter.requires_grad());
  ModuleAttachment::detach(run_);
  const auto go_on = c10::make_scope_exit([&] {
    modes.restore();
    for (auto& [parameter, is_trained] : trained) {
      parameter.mutable_grad().reset();
      parameter.set_requires_grad(is_trained);
    }
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
  EntryPoint entry(inner, module, std::move(source), Stage::kTrain, {});
  entry.run_trial([&] { FitLoop(inner, entry.precision(), entry.source()).run({}); });
}

const BatchLoader& Rehearsal::loader() { return source_.train_ahead(run_.module(), run_.setup, run_.hooks); }

void Rehearsal::set_learning_rate(double lr) { run_.setup.learning_rate = lr; }
void Rehearsal::set_batch_size(std::int64_t samples) { run_.setup.batch_size = samples; }

void EntryPoint::rehearse() {
  for (const auto& callback : run_.parts.callbacks) {
    auto* const rehearsing = dynamic_cast<RehearsingCallback*>(callback.get());
    if (rehearsing == nullptr || run_.options().fast_dev_run) continue;
    const auto scope = run_.hooks.enter(Hook::kOnFitStart);
    Rehearsal rehearsal(run_, source_);
    rehearsing->rehearse(run_.trainer, rehearsal);
    source_.forget_ahead();
  }
}

void EntryPoint::run_trial(const std::function<void()>& loop) {
  run_.parts.callbacks = run_.setup.callbacks;
  run_.data_ahead = &source_;
  make_precision();
  const Checkpoint before = module_state(run_);
  const auto put_back = [&] {
    run_.strategy().teardown();
    restore_module(run_, *precision_, before);
  };
  try {
    set_up_module();
    configure_optimizers();
    run_.parts.schedulers.clear();
    begin_place(run_, Place::kTrainStart, MetricMaps());
    loop();
    throw_if_signalled("during ");
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace levin
