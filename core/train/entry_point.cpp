#include "levin/core/train/entry_point.h"

#include <c10/util/Exception.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/console/console.h"
#include "levin/core/diagnostics/announcements.h"
#include "levin/core/diagnostics/held_memory.h"
#include "levin/core/diagnostics/parameter_warnings.h"
#include "levin/core/diagnostics/torch_messages.h"
#include "levin/core/files/paths.h"
#include "levin/core/run/boundaries.h"
#include "levin/core/run/epoch_plan.h"
#include "levin/core/run/rank_agreement.h"
#include "levin/core/state/checkpoint_choice.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/module_attachment.h"
#include "levin/core/state/restart_notes.h"
#include "levin/core/step/optimizers.h"
#include "levin/core/tuning_callback.h"

namespace levin {

namespace {

bool user_tunes_malloc() {
  if (std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr || std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr) return true;
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos;
}

/// Makes glibc's malloc reuse memory that training steps free. By default it returns blocks above 128 KiB, and the end of its
/// heap, to the system, which clears each page again in the next step: hundreds of page faults a step. From here on it retains
/// blocks of up to 32 MiB, its maximum, and 64 MiB at the end of its heap, as it does by itself once a program has freed a
/// block of 32 MiB. This cannot be undone. With another allocator this changes nothing.
void keep_heap_memory() {
  [[maybe_unused]] static const bool once =
      !user_tunes_malloc() && mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 64 << 20) == 1;
}

/// For the user, to whom the first rank reports the error; the program gets the error itself.
void report_consequence(const std::string& consequence) {
  if (!OwnProcess::is_one()) return;
  Console::instance().error(consequence);
  Console::instance().mark_reported(std::current_exception());
}

bool is_taken(const std::optional<bool>& option) { return option.value_or(OwnProcess::is_one()); }

}  // namespace

EntryPoint::EntryPoint(TrainerState& run, Module& module, DataSource source, Stage stage, const RunOptions& options)
    : run_(run), source_(std::move(source)), stage_(stage), options_(options) {
  if (run_.entry.active) {
    throw MisuseError("This Trainer is already inside an entry point; fit, validate, test and predict do not nest.");
  }
  const bool is_other = run_.parts.module != &module;
  ModuleAttachment::release(module);
  ModuleAttachment::detach(run_);
  run_.metrics->clear();
  ModuleAttachment::attach(module, run_);
  // Nothing below throws: a constructor that throws has no destructor, and the entry point would never end.
  // After a fit the module has the weights to evaluate, and a checkpoint both kinds, until other weights are loaded.
  if (fitting() || options.ckpt_path || is_other) run_.weights.forget();
  run_.entry.active = true;
  run_.entry.thread = std::this_thread::get_id();
  run_.entry.failing = false;
  run_.entry.failure.reset();
  run_.parts.data = source_.data_module();
  run_.tracker.reset();
  run_.hooks.forget_names();
  // This rank reports a file before other ranks, which wait for it, end the run.
  const double share = run_.world_size() > 1 ? 0.9 : 1;
  run_.files.begin({.longest = std::chrono::duration<double>(share * run_.options().timeout_seconds)});
  run_.wishes.begin(is_taken(run_.options().process.signals));
  begin_progress();
}

void EntryPoint::begin_progress() {
  Progress& progress = run_.progress;
  progress.stage = stage_;
  progress.fitting = fitting();
  progress.batch.in_work = false;
  progress.batch.loaders.clear();
  progress.evaluation_steps.clear();
  run_.resume.replaying = false;
  run_.resume.rank_states_at_end.clear();
  run_.sections->forget();
  run_.modes_after_evaluation.reset();
  if (!fitting()) return;
  static std::atomic<std::int64_t> fits = 0;
  // Trials do not count: an attempt that resumes a fit skips them.
  if (!run_.entry.is_trial) {
    progress.fit = fits++;
    run_.setup.batch_size.reset();
    run_.setup.learning_rate.reset();
  }
  progress.end_reason.clear();
  progress.num_training_batches = -1;
  run_.accumulation.window = {};
  run_.nan.reset();
  run_.measures = {};
  run_.resume.good_file.clear();
  run_.leaves.reset();
  run_.stragglers = {};
  run_.graph.begin();
  run_.resume.position = {};
  run_.resume.position.epochs_done = progress.epoch;
}

EntryPoint::~EntryPoint() {
  // The module stays attached, so that save_checkpoint() and metrics work after fit(), until it or the Trainer goes.
  run_.entry.active = false;
  run_.wishes.end();
  run_.parts.data = nullptr;
  run_.data_ahead = nullptr;
  run_.graph.end();
  run_.progress.fitting = false;
  run_.resume.arrive();
}

void EntryPoint::run(const std::function<void()>& loop) {
  begin();
  step(loop);
  end();
}

void EntryPoint::begin() {
  const ProcessOptions& taken = run_.options().process;
  if (is_taken(taken.signals)) signals_.emplace([&](int signal) { return taken.requeues_on(signal); });
  if (is_taken(taken.memory)) keep_heap_memory();
  if (is_taken(taken.crash_reports)) crash_report_.emplace(run_.strategy().rank(), run_.world_size() == 1, run_.tracker);
  run_.failed_batch.clear();
  guard([&] {
    if (run_.setup.profiler != nullptr) run_.setup.profiler->begin(run_.trainer, stage_);
    set_up();
  });
}

void EntryPoint::step(const std::function<void()>& work) { guard(work); }

void EntryPoint::end() {
  guard([&] {
    throw_if_signalled("during ");
    finish();
  });
}

void EntryPoint::guard(const std::function<void()>& part) {
  try {
    part();
  } catch (const Interrupted& interrupted) {
    keep_rank_states(run_);
    fail(interrupted, "interrupted");
    continuation_.go_back_to_queue();
    throw;
  } catch (std::exception& error) {
    auto* const of_torch = dynamic_cast<c10::Error*>(&error);
    if (of_torch != nullptr) explain(*of_torch);
    fail(error, "failed");
    auto* const own = dynamic_cast<Error*>(&error);
    // This rank's error may only be a consequence; if it is its own, such as differing options, so is the status.
    if (const auto consequence = run_.strategy().failure_elsewhere()) {
      if (own == nullptr || !own->is_of_all_ranks()) throw DesyncError(*consequence, exit_code_of(error));
      report_consequence(*consequence);
    }
    if (of_torch != nullptr) of_torch->add_context(run_.entry.failure->place());
    // An error of the configuration names its own file and line.
    if (own != nullptr && dynamic_cast<ConfigError*>(own) == nullptr) own->set_place(run_.entry.failure->place());
    throw;
  } catch (...) {
    fail(std::runtime_error(error_text(std::current_exception())), "failed");
    throw;
  }
}

void EntryPoint::explain(c10::Error& error) const {
  const std::string hint = hint_for_torch_error(error);
  if (!run_.failed_batch.empty()) error.add_context("The batch: " + run_.failed_batch + ".");
  add_held_memory(error, run_.parts, run_.strategy());
  if (!hint.empty()) error.add_context("Hint: " + hint + (hint.ends_with('?') ? "" : "."));
}

void EntryPoint::set_up() {
  Module& module = run_.module();
  {
    const auto scope = run_.hooks.enter(Hook::kConfigureCallbacks);
    run_.parts.callbacks = in_hook_order(merge_callbacks(run_.setup.callbacks, module.configure_callbacks()));
  }
  check_same_setup(run_.setup, run_.parts, options_, stage_);
  agree_on_data_seed();
  check_state_keys(run_.parts.callbacks);
  if (fitting() && options_.ckpt_path && options_.init_from) {
    throw ConfigError(
        "ckpt_path and init_from are both given, and a checkpoint has weights: leave one out (--init_from=null, "
        "--ckpt_path=null).");
  }
  if (fitting()) options_.ckpt_path = continuation_.checkpoint(options_.ckpt_path);
  if (options_.ckpt_path) load_checkpoint();
  prepare_data();
  open_loggers();
  run_.items.open(run_.setup.loggers);
  set_up_parts();
  agree_on_data_seed();  // setup() may have set another
  make_precision();
  if (checkpoint_) name_file_in_errors([&] { restore_module(run_, *precision_, *checkpoint_); });
  if (fitting() && options_.init_from && !options_.ckpt_path) load_initial_weights();
  // A loader that setup() asked for may depend on state that the checkpoint has replaced.
  if (checkpoint_) source_.forget_ahead();
  if (fitting() && !checkpoint_) tune();
  set_up_module();
  if (fitting()) {
    configure_optimizers();
    // A run that was saved before its first epoch begins here.
    if (checkpoint_ && is_at(*checkpoint_, Place::kTrainStart)) RandomSection::restore_at_once(run_.strategy(), *checkpoint_);
    begin_place(run_, Place::kTrainStart);
    run_.hooks.run(Hook::kOnFitStart, &Callback::on_fit_start, &Module::on_fit_start);
  }
  if (checkpoint_ && fitting()) {
    name_file_in_errors([&] { run_.sections->load(run_, *checkpoint_); });
    run_.sections->restore(run_, Moment::kTrainStart);
    resume_ = run_.sections->get<PositionSection>().loaded();
  }
  resume_.file = checkpoint_file_.string();
  if (checkpoint_ && fitting() && is_of_levin(*checkpoint_)) run_.resume.good_file = checkpoint_file_;
  if (fitting()) run_.sections->get<ParameterSection>().begin_training(run_);
  checkpoint_.reset();
  // Last, so that a failed start leaves no folder behind.
  log_hyperparams();
  const bool has_log_folder =
      std::ranges::any_of(run_.setup.loggers, [](const auto& logger) { return !logger->log_dir().empty(); });
  if (run_.is_global_zero() && run_.entry.save_config && has_log_folder && !run_.options().fast_dev_run) {
    std::exchange(run_.entry.save_config, nullptr)(run_.trainer.log_dir(), checkpoint_file_);
  }
  set_up_done_ = true;
}

void EntryPoint::make_precision() {
  precision_.emplace(run_.options().precision, run_.strategy().accelerator(), run_.strategy().device(),
                     run_.options().channels_last);
}

void EntryPoint::agree_on_data_seed() {
  run_.setup.data_seed = agreed_seed(run_.setup);
  const Value* saved = checkpoint_ && fitting() ? checkpoint_->manifest.find("data_seed") : nullptr;
  if (saved != nullptr) run_.setup.data_seed = saved->as_int();
}

void EntryPoint::load_checkpoint() {
  checkpoint_file_ = resolve_checkpoint(run_, *options_.ckpt_path);
  TensorFile file = TensorFile::open_weights(checkpoint_file_, options_.map_location, options_.key);
  const bool has_averages = take_trained_weights(file.content, fitting());
  checkpoint_ = std::make_shared<const Checkpoint>(std::move(file.content));
  if (fitting()) require_training(file.kind);
  if (fitting()) check_same_checkpoint(run_.setup, checkpoint_file_);
  if (fitting()) name_file_in_errors([&] { require_this_format(*checkpoint_); });
  announce_checkpoint(stage_, checkpoint_file_, checkpoint_summary(*checkpoint_));
  announce_lightning();
  if (has_averages) {
    rank_zero_info(
        fitting()
            ? "It has weights to evaluate and trained weights: fit resumes from the trained ones, and a callback that averages "
              "from those to evaluate"
            : "Its weights are those to evaluate, such as averages; the trained ones are stored separately");
  }
  warn_of_other_options();
  const Value* batch_size = checkpoint_->manifest.find("found_batch_size");
  const auto tunes = [](const auto& callback) { return dynamic_cast<const TuningCallback*>(callback.get()) != nullptr; };
  if (fitting() && batch_size != nullptr && std::ranges::any_of(run_.parts.callbacks, tunes))
    run_.setup.batch_size = batch_size->as_int();
  run_.resume.resumed_from = checkpoint_;
  run_.resume.replaying = fitting();
}

void EntryPoint::load_initial_weights() {
  const auto scope = run_.hooks.enter(Hook::kSetup);
  WeightsOptions options = options_.init_from->options;
  if (options.map_location.empty()) options.map_location = options_.map_location;
  if (options.key.empty()) options.key = options_.key;
  precision_->prepare_module(run_.module());  // first, so that a file's 64-bit numbers are not rounded
  load_weights(run_.module(), options_.init_from->path, options);
}

void EntryPoint::require_training(TensorFileKind kind) const {
  const bool is_checkpoint = kind == TensorFileKind::kLevin || kind == TensorFileKind::kLightning;
  if (is_checkpoint && checkpoint_->manifest.contains("optimizer_states")) return;
  const Value* not_read = checkpoint_->manifest.find("not_read");
  throw ConfigError(
      format("ckpt_path: '{}', a {}, holds weights only{}, so training cannot resume from it. Begin a new fit with its "
             "weights: give it as init_from instead of ckpt_path.",
             checkpoint_file_, kind_name(kind),
             not_read == nullptr ? "" : format(" that levin can read ({})", not_read->as_string())));
}

void EntryPoint::announce_lightning() const {
  const Value* loops = checkpoint_->manifest.find("loops");
  if (!fitting() || is_of_levin(*checkpoint_) || loops == nullptr) return;
  const Value* begins_again = loops->find("begins_epoch_again");
  if (begins_again == nullptr || *begins_again == Value(false)) return;
  rank_zero_warn(
      format("'{}' was saved within epoch {}, which begins again: levin does not know how far Lightning was in its data. The "
             "steps that were taken in that epoch remain in the weights and in global_step.",
             checkpoint_file_, loops->at("epochs_done").as_int()));
}

void EntryPoint::warn_of_other_options() const {
  const std::string others = join(different_options(run_.parts, *checkpoint_));
  if (others.empty()) return;
  rank_zero_warn("Options of this run that differ from those of the one that wrote the checkpoint: ", others, ".",
                 fitting() ? " Weights, optimizers and schedulers, learning rates too, are the checkpoint's." : "");
}

void EntryPoint::name_file_in_errors(const std::function<void()>& step) const {
  const auto naming = [&](const std::string& message) {
    const std::string file = checkpoint_file_.string();
    if (message.find(file) != std::string::npos) return message;
    constexpr std::string_view kOption = "ckpt_path: ";
    return format("{}'{}': {}", kOption, file, message.substr(message.starts_with(kOption) ? kOption.size() : 0));
  };
  try {
    step();
  } catch (const ConfigError& error) {
    throw ConfigError(error.mark(), naming(error.message()));
  } catch (const MisuseError& error) {
    throw MisuseError(naming(error.what()), error.exit_code());
  } catch (const IoError& error) {
    throw IoError(naming(error.what()), error.exit_code());
  }
}

void EntryPoint::announce_how_to_resume() const {
  // Rank 0 reports it, unless rank 0 is lost.
  const int speaker = run_.strategy().ranks().lost_rank() == 0 ? 1 : 0;
  if (!fitting() || !set_up_done_ || run_.strategy().rank() != speaker) return;
  for (const auto& [file, step] : run_.resume.newest_first(checkpoint_file_)) {
    if (!is_there(file)) continue;
    return announce_resume(file, run_.progress.global_step - step, options_.resume_command);
  }
}

void EntryPoint::prepare_data() {
  if (run_.strategy().local_rank() == 0) {
    const auto scope = run_.hooks.enter(Hook::kPrepareData);
    if (run_.parts.data != nullptr) run_.parts.data->prepare_data();
    run_.module().prepare_data();
  }
  // Every rank reaches this because every entry point prepares its data, even if it has nothing to do.
  run_.boundaries.meet(BoundaryKind::kSetup);
}

void EntryPoint::open_loggers() {
  if (run_.entry.loggers_open) return;
  const bool resuming = fitting() && checkpoint_ != nullptr && is_of_levin(*checkpoint_);
  RunInfo info{.rank = run_.strategy().rank(),
               .world_size = run_.world_size(),
               .default_root_dir = run_.trainer.default_root_dir(),
               .resuming = resuming,
               .resume_step = resuming ? logging_step_of(*checkpoint_) : 0,
               .resume_checkpoint = resuming ? checkpoint_file_ : ""};
  const auto scope = run_.hooks.enter(Hook::kSetup);
  const std::vector<std::string> earlier = fitting() ? run_.resume.notes->logger_tokens() : std::vector<std::string>();
  std::vector<std::string> tokens;
  for (std::size_t index = 0; index < run_.setup.loggers.size(); ++index) {
    const auto& logger = run_.setup.loggers[index];
    info.earlier_token = index < earlier.size() ? earlier[index] : "";
    if (resuming) info.resume_rows = LoggerRowSection::rows_of(*checkpoint_, info.rank, index);
    const std::string token = run_.is_global_zero() ? logger->open(info) : std::string();
    const ExchangeSite site("opening a logger", "all have the same loggers, which were compared before");
    tokens.push_back(run_.rank_exchange().broadcast_text(token, site));
    logger->attach(info, tokens.back());
    if (!logger->log_dir().empty()) info.open_folders.push_back(logger->log_dir());
  }
  run_.entry.loggers_open = true;
  if (fitting()) run_.resume.notes->note_loggers(std::move(tokens));
  const bool writes = !run_.setup.loggers.empty() || std::ranges::any_of(run_.parts.callbacks, &Callback::saves_state);
  if (writes && !run_.options().fast_dev_run) rank_zero_info("files: ", as_typed(run_.trainer.log_dir()));
}

void EntryPoint::set_up_parts() {
  set_up_parts_done_ = true;
  const auto scope = run_.hooks.enter(Hook::kSetup);
  if (run_.parts.data != nullptr) run_.parts.data->setup(stage_);
  // Before a module asks the data for its sizes, which must fit the weights.
  if (checkpoint_) name_file_in_errors([&] { run_.sections->load_early(run_, *checkpoint_, LoadStep::kSetup); });
  if (fitting()) run_.data_ahead = &source_;
  for (const auto& callback : run_.parts.callbacks) callback->setup(run_.trainer, run_.module(), stage_);
  run_.module().setup(stage_);
  run_.hooks.module(Hook::kConfigureModel, &Module::configure_model);
}

void EntryPoint::set_up_module() {
  Module& module = run_.module();
  run_.scaler.begin(fitting() && precision_->computes_in_half());
  precision_->prepare_module(module);
  const bool alone = run_.world_size() == 1;
  run_.work.begin(!fitting() || alone);
  WaitObserver observer;
  if (!alone) {
    observer = [work = &run_.work, profiler = run_.setup.profiler.get()](double arrived, double left) {
      work->waited(left - arrived);
      if (profiler != nullptr) profiler->waited(WaitReason::kGradients, arrived, left);
    };
  }
  run_.strategy().observe_waits(observer);
  run_.strategy().setup_module(module, fitting());
  if (run_.options().sync_batchnorm && fitting()) run_.strategy().synchronize_batch_norms(module);
  run_.trained.remember_parameters();
  // Frozen parts stay in evaluation mode.
  if (fitting() && !module.is_training()) module.train();
}

void EntryPoint::configure_optimizers() {
  const auto scope = run_.hooks.enter(Hook::kConfigureOptimizers);
  const TrainingLength length(run_.options(), run_.accumulation.batches, [&] { return agreed_epoch_batches(run_); });
  take_optimizers(make_optimizers(run_.module(), run_.optimizer_override, length), run_.options(), run_.parts);
  if (run_.setup.learning_rate) begin_with_rate(run_.parts, *run_.setup.learning_rate);
  check_same_optimizers(run_.setup, run_.parts);
  run_.weights.check();
  run_.trained.remember_optimizers();
  warn_of_idle_parameters(run_.parts);
}

void EntryPoint::log_hyperparams() {
  if (!run_.options().enable_autolog_hparams || run_.entry.hyperparams_logged || !run_.is_global_zero()) return;
  run_.entry.hyperparams_logged = true;
  const auto scope = run_.hooks.enter(Hook::kLogMetrics);
  Value hyperparams = hyperparams_of(run_.parts);
  std::erase_if(hyperparams.as_map(), [](const auto& section) { return section.second.size() == 0; });
  if (fitting()) continuation_.add_to(hyperparams);
  for (const auto& logger : run_.setup.loggers) {
    if (hyperparams.size() > 0) logger->log_hyperparams(hyperparams);
    logger->save();
  }
}

void EntryPoint::finish() {
  run_.progress.batch.loaders.clear();  // they may have gone with the loop
  {
    const auto scope = run_.hooks.enter(Hook::kOnSaveCheckpoint);
    run_.files.wait();
  }
  // Every rank reaches this because all loops end at the same boundary.
  run_.boundaries.meet(BoundaryKind::kEnd);
  throw_if_signalled("at the end of ");
  if (fitting()) {
    run_.hooks.run(Hook::kOnFitEnd, &Callback::on_fit_end, &Module::on_fit_end);
    save_requested(run_);
    const auto scope = run_.hooks.enter(Hook::kOnSaveCheckpoint);
    run_.files.wait();
  }
  set_up_parts_done_ = false;
  run_.sections->get<DataSection>().keep(run_);
  tear_down_hooks();
  {
    const auto scope = run_.hooks.enter(Hook::kLogMetrics);
    run_.items.finish();
    loggers_final_ = true;
    run_.setup.end_loggers({.status = "success", .stop_reason = fitting() ? run_.progress.end_reason : ""});
  }
  if (fitting()) continuation_.forget_queue();
  // Every rank reaches this because all have the same profiler, which was compared before.
  if (run_.setup.profiler != nullptr) run_.setup.profiler->end(run_.trainer);
  profiler_ended_ = true;
  // Every rank reaches this because none leaves before: a rank that fails or stalls in the hooks above is noticed.
  run_.boundaries.meet(BoundaryKind::kEnd);
  throw_if_signalled("after ");
  run_.strategy().teardown();
}

void EntryPoint::throw_if_signalled(const std::string& when) const {
  run_.wishes.throw_if_signalled(when + std::string(stage_name(stage_)));
}

void EntryPoint::fail(const std::exception& error, const std::string& status) {
  // Saved first: the hooks that run from here on are not where this rank failed.
  const Whereabouts where = run_.tracker.fail();
  run_.entry.failing = true;
  run_.entry.failure = Failure{run_.strategy().rank(), run_.world_size(), where};
  run_.progress.batch.loaders.clear();
  // Every rank knows an agreed signal; any other error must be reported to the others at once. The exception being handled is
  // reported: its type shows where it comes from, and `error` may be a substitute.
  if (status != "interrupted") run_.strategy().report_failure(where, std::current_exception());
  const auto guarded = [&](const std::function<void()>& hook) {
    try {
      hook();
    } catch (...) {
      Console::instance().error(format("While handling an error, {} failed too: {}",
                                       run_.tracker.hook() == Hook::kNone ? "the run's end" : hook_name(run_.tracker.hook()),
                                       error_text(std::current_exception())));
    }
  };
  guarded([&] { run_.trained.untoggle(); });
  if (fitting()) guarded([&] { run_.weights.train(); });
  {
    const auto scope = run_.hooks.enter(Hook::kOnSaveCheckpoint);
    guarded([&] { save_requested(run_); });
    const SavingScope saving(run_.strategy().ranks());
    guarded([&] { run_.files.wait(); });
  }
  {
    const auto scope = run_.hooks.enter(Hook::kOnException);
    for (const auto& callback : run_.parts.callbacks) {
      guarded([&] { callback->on_exception(run_.trainer, run_.module(), error); });
    }
    if (run_.parts.data != nullptr) guarded([&] { run_.parts.data->on_exception(error); });
    guarded([&] { run_.module().on_exception(error); });
    if (status == "interrupted" && fitting() && set_up_done_) guarded([&] { continuation_.save_for_queue(); });
  }
  if (set_up_parts_done_) guarded([&] { tear_down_hooks(); });
  guarded([&] { run_.items.finish(); });
  if (run_.entry.loggers_open && !loggers_final_) {
    const std::string own = run_.entry.failure->place() + ": " + error_text(std::current_exception());
    run_.setup.end_loggers({.status = status, .failure = status == "failed" ? own : ""}, guarded);
  }
  if (run_.setup.profiler != nullptr && !profiler_ended_) guarded([&] { run_.setup.profiler->end_failed(run_.trainer); });
  guarded([&] { announce_how_to_resume(); });
  // A program that catches the error may continue with another entry point.
  run_.entry.loggers_open = false;
  run_.strategy().teardown();
}

void EntryPoint::tear_down_hooks() {
  const auto scope = run_.hooks.enter(Hook::kTeardown);
  if (run_.parts.data != nullptr) run_.parts.data->teardown(stage_);
  for (const auto& callback : run_.parts.callbacks) callback->teardown(run_.trainer, run_.module(), stage_);
  run_.module().teardown(stage_);
}

void EntryPoint::tune() {
  for (const auto& callback : run_.parts.callbacks) {
    auto* const tuning = dynamic_cast<TuningCallback*>(callback.get());
    if (tuning == nullptr || run_.options().fast_dev_run) continue;
    const auto scope = run_.hooks.enter(Hook::kOnFitStart);
    require_training_data(run_);
    TrialRunner trials(run_, source_);
    tuning->tune(run_.trainer, trials);
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
    run_.sections->load_early(run_, before, LoadStep::kSetup);
    restore_module(run_, *precision_, before);
  };
  try {
    set_up_module();
    configure_optimizers();
    run_.parts.schedulers.clear();
    begin_place(run_, Place::kTrainStart);
    loop();
    throw_if_signalled("during ");
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace levin
