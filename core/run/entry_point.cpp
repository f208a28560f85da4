#include "levin/core/run/entry_point.h"

#include "levin/core/base/error_text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"
#include "levin/core/loops/optimizer_config.h"
#include "levin/core/protocol/rank_exchange.h"
#include "levin/core/resume/checkpoint_state.h"
#include "levin/core/resume/rank_state.h"
#include "levin/core/rows/metric_rows.h"
#include "levin/core/run/announcements.h"
#include "levin/core/run/module_attachment.h"
#include "levin/core/run/rank_agreement.h"
#include "levin/core/run/signals.h"
#include "levin/core/run/trainer_parts.h"

namespace levin {

EntryPoint::EntryPoint(Trainer::Runtime& runtime, Module& module, DataSource source, Stage stage, const RunOptions& run)
    : runtime_(runtime), source_(std::move(source)), stage_(stage), run_(run), hooks_(runtime), running_(runtime) {
  if (runtime_.in_entry_point) {
    throw MisuseError("This Trainer is already inside an entry point; fit, validate, test and predict do not nest.");
  }
  ModuleAttachment::release(module);
  ModuleAttachment::detach(runtime_);
  runtime_.in_entry_point = true;
  runtime_.data = source_.data_module();
  runtime_.failing = false;
  runtime_.rank_states_at_end.clear();
  runtime_.start_metrics();
  LoopState& state = runtime_.state;
  state.stage = stage;
  state.fitting = fitting();
  state.failed_at.reset();
  state.in_batch = false;
  state.loaders.clear();
  state.stop_wish = state.stop_agreed = state.skip_epoch_wish = false;
  state.stop_reason.clear();
  state.evaluation_steps.clear();
  state.replaying = false;
  if (fitting()) {
    state.end_reason.clear();
    state.window = {};
    state.position = {};
    state.position.epochs_done = state.epoch;
  }
  state.signal_agreed = 0;
  ModuleAttachment::attach(module, runtime_);
}

EntryPoint::~EntryPoint() {
  // The module stays attached, so that save_checkpoint() and metrics work after fit(), until it or the Trainer goes.
  runtime_.in_entry_point = false;
  runtime_.data = nullptr;
  runtime_.state.fitting = false;
  runtime_.state.replaying = false;
  runtime_.resumed_from.reset();
  runtime_.state.hook = Hook::kNone;
}

void EntryPoint::run(const std::function<void()>& loop) {
  const SignalScope signals;
  try {
    set_up();
    loop();
    check_signal("during ");
    finish();
  } catch (const Interrupted& interrupted) {
    keep_rank_states(runtime_);
    fail(interrupted, "interrupted");
    throw;
  } catch (const std::exception& error) {
    fail(error, "failed");
    // Where another rank failed first, this rank's error may only be how it noticed.
    if (const auto consequence = runtime_.strategy->failure_elsewhere()) throw DesyncError(*consequence);
    throw;
  } catch (...) {
    fail(std::runtime_error("an exception that is no std::exception"), "failed");
    throw;
  }
}

void EntryPoint::set_up() {
  Module& module = *runtime_.module;
  {
    HookScope scope(runtime_, Hook::kConfigureCallbacks);
    runtime_.callbacks = in_hook_order(merge_callbacks(runtime_.configured_callbacks, module.configure_callbacks()));
  }
  check_same_setup(runtime_, run_);
  if (run_.ckpt_path) {
    checkpoint_file_ = resolve_checkpoint(runtime_, *run_.ckpt_path);
    checkpoint_ = std::make_shared<const Checkpoint>(Checkpoint::load(checkpoint_file_));
    const Value* loops = checkpoint_->manifest.find("loops");
    if (fitting() && loops != nullptr && loops->find("place") == nullptr) {
      throw ConfigError("ckpt_path: '" + checkpoint_file_.string() +
                        "' was written by an earlier levin, which did not say where its run goes on. It can be tested and "
                        "validated; to train on, load its weights in the module's setup().");
    }
    runtime_.resumed_from = checkpoint_;
    runtime_.state.replaying = fitting();
  }
  prepare_data();
  open_loggers();
  set_up_parts();
  if (checkpoint_) restore_module(runtime_, *checkpoint_);
  set_up_module();
  if (fitting()) {
    configure_optimizers();
    begin_training();
    hooks_.run(Hook::kOnFitStart, &Callback::on_fit_start, &Module::on_fit_start);
  }
  log_hyperparams();
  if (checkpoint_ && fitting()) resume_ = restore_training(runtime_, *checkpoint_);
  checkpoint_.reset();
}

void EntryPoint::prepare_data() {
  if (runtime_.strategy->local_rank() == 0) {
    HookScope scope(runtime_, Hook::kPrepareData);
    if (runtime_.data != nullptr) runtime_.data->prepare_data();
    runtime_.module->prepare_data();
  }
  // Every rank reaches this because every entry point prepares its data, whoever has something to do.
  runtime_.meet(BoundaryKind::kSetup);
}

void EntryPoint::open_loggers() {
  if (runtime_.loggers_open) return;
  RunInfo info;
  info.rank = runtime_.strategy->rank();
  info.world_size = runtime_.world_size();
  info.default_root_dir = runtime_.trainer.default_root_dir();
  info.resuming = fitting() && checkpoint_ != nullptr;
  if (info.resuming) info.resume_checkpoint = checkpoint_file_;
  info.resume_step = info.resuming ? logging_step_of(*checkpoint_) : 0;
  HookScope scope(runtime_, Hook::kSetup);
  for (std::size_t index = 0; index < runtime_.loggers.size(); ++index) {
    const auto& logger = runtime_.loggers[index];
    if (info.resuming) info.resume_rows = logger_rows_of(*checkpoint_, info.rank, index);
    const std::string token = runtime_.is_global_zero() ? logger->open(info) : std::string();
    const Meeting meeting("opening a logger", "all have the same loggers, which were compared before");
    logger->attach(info, RankExchange(runtime_.strategy->control_group()).broadcast_text(token, meeting));
  }
  runtime_.loggers_open = true;
  if (runtime_.is_global_zero() && runtime_.save_config && !runtime_.options.fast_dev_run) {
    runtime_.save_config(runtime_.trainer.log_dir());
  }
  announce_files(runtime_);
}

void EntryPoint::set_up_parts() {
  set_up_parts_done_ = true;
  HookScope scope(runtime_, Hook::kSetup);
  if (runtime_.data != nullptr) runtime_.data->setup(stage_);
  for (const auto& callback : runtime_.callbacks) callback->setup(runtime_.trainer, *runtime_.module, stage_);
  runtime_.module->setup(stage_);
  hooks_.module(Hook::kConfigureModel, &Module::configure_model);
}

void EntryPoint::set_up_module() {
  Module& module = *runtime_.module;
  precision_.emplace(runtime_.options.precision, runtime_.strategy->device());
  precision_->convert_module(module);
  if (!runtime_.strategy->device().is_cpu()) module.to(runtime_.strategy->device());
  runtime_.strategy->setup_module(module, fitting());
  if (fitting()) module.train();
}

void EntryPoint::configure_optimizers() {
  HookScope scope(runtime_, Hook::kConfigureOptimizers);
  const OptimizerSetups setups = make_optimizers(runtime_);
  take_optimizers(runtime_, setups);
  check_same_optimizers(runtime_);
}

void EntryPoint::begin_training() {
  // A run that was saved before its first epoch begins here.
  if (checkpoint_ && is_before_training(*checkpoint_)) restore_random_state(runtime_.strategy->rank(), *checkpoint_);
  PlaceStart& start = runtime_.state.position.start;
  start.random.now = RandomSnapshot::take();
  start.rows = rows_written(runtime_);
  start.maps.emplace();  // what a sanity check shows is of no account
}

void EntryPoint::log_hyperparams() {
  if (!runtime_.options.enable_autolog_hparams || runtime_.hyperparams_logged || !runtime_.is_global_zero()) return;
  runtime_.hyperparams_logged = true;
  HookScope scope(runtime_, Hook::kLogMetrics);
  const Value hyperparams = merged_hyperparams(runtime_);
  for (const auto& logger : runtime_.loggers) {
    if (hyperparams.size() > 0) logger->log_hyperparams(hyperparams);
    logger->save();
  }
}

void EntryPoint::finish() {
  runtime_.state.loaders.clear();  // they may have gone with the loop
  // Every rank reaches this because all loops end at the same boundary.
  runtime_.meet(BoundaryKind::kEnd);
  check_signal("at the end of ");
  if (fitting()) hooks_.run(Hook::kOnFitEnd, &Callback::on_fit_end, &Module::on_fit_end);
  set_up_parts_done_ = false;
  tear_down_hooks();
  finalize_loggers("success");
  // Every rank reaches this because none leaves before: one that fails or stalls in the hooks above does not go unnoticed.
  runtime_.meet(BoundaryKind::kEnd);
  check_signal("after ");
  runtime_.strategy->teardown();
}

void EntryPoint::check_signal(const std::string& when) const {
  if (runtime_.state.signal_agreed == 0) return;
  throw Interrupted(runtime_.state.signal_agreed, when + std::string(stage_name(stage_)));
}

void EntryPoint::finalize_loggers(const std::string& status) {
  HookScope scope(runtime_, Hook::kLogMetrics);
  loggers_final_ = true;
  for (const auto& logger : runtime_.loggers) logger->finalize(status);
}

void EntryPoint::fail(const std::exception& error, const std::string& status) {
  // Kept: the hooks that run from here on are not where this rank failed.
  if (!runtime_.state.failed_at) runtime_.state.failed_at = runtime_.state.whereabouts();
  const Whereabouts where = *runtime_.state.failed_at;
  runtime_.failing = true;
  runtime_.state.loaders.clear();
  // An agreed signal is known to every rank already; any other error the others must hear of at once. It is the one that is
  // being handled: its type says where it comes from, and `error` may only stand for it.
  if (status != "interrupted") runtime_.strategy->report_failure(where, std::current_exception());
  const auto guarded = [&](const std::function<void()>& hook) {
    try {
      hook();
    } catch (const std::exception& second) {
      Console::instance().error(std::string("While handling an error, ") + std::string(hook_name(runtime_.state.hook)) +
                                " failed too: " + error_text(second));
    } catch (...) {
      Console::instance().error("While handling an error, a hook failed too, with an exception that is no std::exception.");
    }
  };
  {
    HookScope scope(runtime_, Hook::kOnException);
    for (const auto& callback : runtime_.callbacks) {
      guarded([&] { callback->on_exception(runtime_.trainer, *runtime_.module, error); });
    }
    if (runtime_.data != nullptr) guarded([&] { runtime_.data->on_exception(error); });
    guarded([&] { runtime_.module->on_exception(error); });
  }
  if (set_up_parts_done_) guarded([&] { tear_down_hooks(); });
  for (const auto& logger : runtime_.loggers) {
    if (runtime_.loggers_open && !loggers_final_) guarded([&] { logger->finalize(status); });
  }
  runtime_.strategy->teardown();
}

void EntryPoint::tear_down_hooks() {
  HookScope scope(runtime_, Hook::kTeardown);
  if (runtime_.data != nullptr) runtime_.data->teardown(stage_);
  for (const auto& callback : runtime_.callbacks) callback->teardown(runtime_.trainer, *runtime_.module, stage_);
  runtime_.module->teardown(stage_);
}

}  // namespace levin
