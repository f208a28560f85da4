#include "levin/core/trainer.h"

#include <ATen/ops/tensor.h>

#include <system_error>
#include <thread>

#include "levin/core/base/format.h"
#include "levin/core/batch_loader.h"
#include "levin/core/diagnostics/announcements.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/run/gathered_rows.h"
#include "levin/core/state/checkpoint_state.h"
#include "levin/core/train/entry_point.h"
#include "levin/core/train/evaluation_loop.h"
#include "levin/core/train/process_settings.h"
#include "levin/core/train/thread_of_run.h"

namespace levin {

namespace {

/// Hooks continue to run: what another thread reads or writes of the run would mix two steps.
void refuse_other_thread(const TrainerState& run, const char* call) {
  if (!run.entry.active || run.entry.thread == std::this_thread::get_id()) return;
  throw MisuseError(
      format("{} was called by another thread than the one that runs the hooks. Call it in a hook, such as on_train_batch_end; "
             "another thread can set a flag for that hook, or end training with stop().",
             call));
}

void run_fit(TrainerState& run, Module& module, DataSource source, const RunOptions& options) {
  const ProcessSettings settings(run.options());
  const ThreadOfRun thread(run);
  EntryPoint entry(run, module, std::move(source), Stage::kTrain, options);
  entry.run([&] { FitLoop(run, entry.precision(), entry.source()).run(entry.resume_point()); });
}

struct Evaluated {
  std::vector<MetricMap> metrics;
  std::vector<std::vector<Batch>> predictions;
};

Evaluated run_evaluation(TrainerState& run, Module& module, DataSource source, Stage stage, const RunOptions& options) {
  const ProcessSettings settings(run.options());
  const ThreadOfRun thread(run);
  EntryPoint entry(run, module, std::move(source), stage, options);
  Evaluated evaluated;
  entry.run([&] {
    if (!EvaluationLoop::takes_any(run.options(), stage)) return;
    LoaderList loaders = entry.source().evaluation(stage, module, run.setup, run.hooks);
    if (loaders.empty()) {
      throw MisuseError(format(
          "{} needs data: pass loaders, or a data module (`data:` in YAML) whose {}() returns some, or override the module's.",
          stage_name(stage), hook_name(dataloaders_hook(stage))));
    }
    EvaluationLoop loop(run, entry.precision(), stage, std::move(loaders),
                        stage == Stage::kPredict && options.return_predictions);
    if (options.verbose) announce_rank(run.strategy(), evaluation_loaders(stage, loop.loaders(), loop.num_batches()));
    loop.run();
    evaluated = {loop.results(), loop.take_predictions()};
  });
  return evaluated;
}

std::vector<MetricMap> evaluate(TrainerState& run, Module& module, DataSource source, Stage stage, const RunOptions& options) {
  const std::vector<MetricMap> results = run_evaluation(run, module, std::move(source), stage, options).metrics;
  if (options.verbose) rank_zero_info(evaluation_report(stage, results));
  return results;
}

}  // namespace

std::string Failure::place() const {
  return (world_size > 1 ? format("rank {} failed ", rank) : "failed ") + describe_place(where);
}

Trainer::Trainer(TrainerOptions options) : state_(std::make_unique<TrainerState>(*this, std::move(options))) {}
Trainer::~Trainer() { ModuleAttachment::detach(*state_); }

void Trainer::fit(Module& module, DataModule& data, const RunOptions& options) {
  run_fit(*state_, module, DataSource(data), options);
}
void Trainer::fit(Module& module, LoaderPtr train, LoaderList validation, const RunOptions& options) {
  run_fit(*state_, module, DataSource(std::move(train), std::move(validation)), options);
}
void Trainer::fit(Module& module, const RunOptions& options) { run_fit(*state_, module, DataSource(nullptr, {}), options); }
std::vector<MetricMap> Trainer::validate(Module& module, DataModule& data, const RunOptions& options) {
  return evaluate(*state_, module, DataSource(data), Stage::kValidate, options);
}
std::vector<MetricMap> Trainer::validate(Module& module, LoaderList loaders, const RunOptions& options) {
  return evaluate(*state_, module, DataSource(nullptr, std::move(loaders)), Stage::kValidate, options);
}
std::vector<MetricMap> Trainer::test(Module& module, DataModule& data, const RunOptions& options) {
  return evaluate(*state_, module, DataSource(data), Stage::kTest, options);
}
std::vector<MetricMap> Trainer::test(Module& module, LoaderList loaders, const RunOptions& options) {
  return evaluate(*state_, module, DataSource(nullptr, std::move(loaders)), Stage::kTest, options);
}
std::vector<std::vector<Batch>> Trainer::predict(Module& module, DataModule& data, const RunOptions& options) {
  return run_evaluation(*state_, module, DataSource(data), Stage::kPredict, options).predictions;
}
std::vector<std::vector<Batch>> Trainer::predict(Module& module, LoaderList loaders, const RunOptions& options) {
  return run_evaluation(*state_, module, DataSource(nullptr, std::move(loaders)), Stage::kPredict, options).predictions;
}

const TrainerOptions& Trainer::options() const { return state_->options(); }
Stage Trainer::stage() const { return state_->progress.stage; }
bool Trainer::fitting() const { return state_->progress.fitting; }
std::int64_t Trainer::current_epoch() const { return state_->progress.epoch; }
std::int64_t Trainer::global_step() const { return state_->progress.global_step; }
std::int64_t Trainer::batch_idx() const { return state_->progress.batch.batch_idx; }
std::int64_t Trainer::dataloader_idx() const { return state_->progress.batch.dataloader_idx; }
std::int64_t Trainer::num_training_batches() const { return state_->progress.num_training_batches; }
const std::vector<std::int64_t>& Trainer::num_evaluation_batches() const { return state_->progress.num_evaluation_batches; }
std::int64_t Trainer::total_batch_idx() const { return state_->progress.total_batch_idx; }
bool Trainer::validates() const { return state_->progress.validates; }
std::int64_t Trainer::accumulate_grad_batches() const { return state_->accumulation.batches; }
bool Trainer::is_last_batch() const { return state_->progress.batch.is_last; }
bool Trainer::epoch_is_unfinished() const { return state_->resume.position.place == Place::kStopped; }

std::int64_t Trainer::estimated_stepping_batches() const {
  const TrainingLength length(state_->options(), state_->accumulation.batches,
                              [&] { return estimated_epoch_batches(*state_); });
  return length.optimizer_steps().value_or(-1);
}

const MetricMap& Trainer::callback_metrics() const { return state_->metrics->callback_metrics(); }
const MetricMap& Trainer::logged_metrics() const { return state_->metrics->logged_metrics(); }
const MetricMap& Trainer::progress_bar_metrics() const { return state_->metrics->progress_bar_metrics(); }
MetricMap Trainer::callback_metrics_at_hand() const { return state_->metrics->maps_at_hand().callback; }
MetricMap Trainer::progress_bar_metrics_at_hand() const { return state_->metrics->maps_at_hand().progress_bar; }
std::optional<double> Trainer::monitored(std::string_view name) const { return state_->metrics->monitored(name); }
std::optional<double> Trainer::monitored_now(std::string_view name) {
  refuse_other_thread(*state_, "monitored_now()");
  // Every rank reaches this because all ranks must call monitored_now() together.
  if (world_size() > 1) state_->boundaries.meet(BoundaryKind::kDecision);
  return monitored(name);
}
void Trainer::set_callback_metric(std::string_view name, double value) {
  refuse_other_thread(*state_, "set_callback_metric()");
  state_->metrics->set_callback_metric(name, value);
}

int Trainer::rank() const { return state_->strategy().rank(); }
int Trainer::world_size() const { return state_->strategy().world_size(); }
int Trainer::local_rank() const { return state_->strategy().local_rank(); }
Strategy& Trainer::strategy() const { return state_->strategy(); }
at::Device Trainer::device() const { return state_->strategy().device(); }
at::Generator Trainer::rank_generator() const { return stream_generator(stream_of_rank(rank())); }
at::Generator Trainer::shared_generator() const { return stream_generator(kSharedStream); }
DataModule* Trainer::data_module() const { return state_->parts.data; }
const std::vector<std::shared_ptr<Callback>>& Trainer::callbacks() const { return state_->parts.callbacks; }
Profiler* Trainer::profiler() const { return state_->setup.profiler.get(); }
const std::vector<std::shared_ptr<Logger>>& Trainer::loggers() const { return state_->setup.loggers; }
const std::vector<std::shared_ptr<torch::optim::Optimizer>>& Trainer::optimizers() const { return state_->parts.optimizers; }
const std::vector<SchedulerConfig>& Trainer::scheduler_configs() const { return state_->parts.schedulers; }

std::filesystem::path Trainer::default_root_dir() const {
  if (state_->options().default_root_dir) return *state_->options().default_root_dir;
  std::error_code error;
  std::filesystem::path folder = std::filesystem::current_path(error);
  if (error)
    throw IoError("The working folder is gone (" + error.message() + "): set default_root_dir, or start in another one.");
  return folder;
}
std::filesystem::path Trainer::log_dir() const {
  for (const auto& logger : state_->setup.loggers) {
    if (std::filesystem::path folder = logger->log_dir(); !folder.empty()) return folder;
  }
  return default_root_dir();
}

void Trainer::stop(const std::string& reason) { state_->wishes.ask_to_stop(reason); }
bool Trainer::should_stop() const { return state_->wishes.stop_asked() || state_->wishes.stop_agreed(); }
std::string Trainer::stop_reason() const { return state_->progress.end_reason; }
const std::optional<Failure>& Trainer::failure() const { return state_->entry.failure; }
void Trainer::clear_stop() { state_->wishes.take_back_stop(); }
void Trainer::request(RunCommand command) { state_->wishes.ask(command); }
bool Trainer::paused() const { return state_->wishes.is_paused(); }
void Trainer::skip_epoch() { state_->wishes.skip_epoch(true); }
void Trainer::set_accumulate_grad_batches(std::int64_t batches) {
  refuse_other_thread(*state_, "set_accumulate_grad_batches()");
  if (batches < 1) throw MisuseError(format("set_accumulate_grad_batches: {} is less than 1.", batches));
  state_->accumulation.batches = batches;
}
void Trainer::set_schedulers(std::vector<SchedulerConfig> schedulers) {
  refuse_other_thread(*state_, "set_schedulers()");
  state_->parts.schedulers = std::move(schedulers);
}
void Trainer::visit_training_data(const std::function<void(const Batch&, std::int64_t)>& visit) {
  refuse_other_thread(*state_, "visit_training_data()");
  if (!state_->visit_training_data) throw MisuseError("visit_training_data() is for hooks of fit().");
  state_->visit_training_data(visit);
}
void Trainer::save_checkpoint(const std::filesystem::path& file, bool weights_only) {
  refuse_other_thread(*state_, "save_checkpoint()");
  save_run(*state_, file, {.weights_only = weights_only});
}
void Trainer::save_checkpoint_in_background(const std::filesystem::path& file, bool weights_only) {
  refuse_other_thread(*state_, "save_checkpoint_in_background()");
  save_run(*state_, file, {.weights_only = weights_only, .in_background = true});
}
BackgroundFiles& Trainer::checkpoint_files() { return state_->files; }
void Trainer::log_to_loggers(const MetricMap& values, std::optional<std::int64_t> step) {
  refuse_other_thread(*state_, "log_to_loggers()");
  const Progress& progress = state_->progress;
  // The resumed run has written the messages of hooks that only set up again.
  if (!state_->is_global_zero() || state_->resume.replaying) return;
  for (const auto& logger : state_->setup.loggers) {
    logger->log_metrics({progress.stage, progress.epoch, step.value_or(progress.logging_step), /*epoch_end=*/false, values});
  }
}
void Trainer::on_log_dir(std::function<void(const std::filesystem::path&, const std::filesystem::path&)> save) {
  state_->entry.save_config = std::move(save);
}
void Trainer::override_optimizers(std::shared_ptr<OptimizerFactory> optimizer, std::shared_ptr<LrSchedulerFactory> scheduler,
                                  const Value& scheduler_settings) {
  state_->optimizer_override = {std::move(optimizer), std::move(scheduler), scheduler_settings};
}
void Trainer::set_checkpoint_alias(const std::string& alias, const std::filesystem::path& file) {
  state_->resume.checkpoint_aliases[alias] = file;
}

bool has_training_data(const Trainer& trainer) { return !TrainerState::of(trainer).entry.is_session; }

std::optional<std::int64_t> samples_of_all_ranks(const Trainer& trainer, const Batch& batch) {
  const TrainerState& run = TrainerState::of(trainer);
  if (run.world_size() == 1) return batch.batch_size();
  if (run.step_votes == nullptr) return std::nullopt;
  if (!run.reduces_gradients()) return run.progress.batch.samples_of_all;
  if (run.accumulation.full_batch_size == 0) return std::nullopt;  // weights are not numbers of samples
  return run.step_votes->reduced() ? run.step_votes->agreed().gradient_weight : 0;
}

void keep_step_losses(const Trainer& trainer) { TrainerState::of(trainer).measures.losses.keep(); }

StepLoss loss_of_step(const Trainer& trainer) {
  const StepLosses& losses = TrainerState::of(trainer).measures.losses;
  if (!losses.are_kept()) throw MisuseError("loss_of_step(): call keep_step_losses() in setup() first.");
  return losses.total();
}

std::vector<at::Tensor> gradient_norms(const Trainer& trainer, const torch::optim::Optimizer& optimizer, double norm_type) {
  return norm_type == 2 ? TrainerState::of(trainer).measures.norms.before_clipping(optimizer)
                        : norms_of_gradients(all_parameters(optimizer), norm_type);
}

const std::vector<RankReport>& reports_of_ranks(const Trainer& trainer) { return TrainerState::of(trainer).reports.by_rank(); }

const EvaluationTotals& evaluation_of_all_ranks(const Trainer& trainer) {
  return TrainerState::of(trainer).progress.evaluation_totals;
}

std::optional<std::vector<std::int64_t>> samples_of_batch(const Trainer& trainer) {
  return samples_in_work(TrainerState::of(trainer).progress.batch, trainer.dataloader_idx(), "samples_of_batch");
}

std::vector<std::int64_t> samples_of_gathered_rows(const Trainer& trainer, std::int64_t dataloader_idx) {
  const TrainerState& run = TrainerState::of(trainer);
  const std::string call = "samples_of_gathered_rows";
  const auto mine = samples_in_work(run.progress.batch, dataloader_idx, call).value_or(std::vector<std::int64_t>());
  const at::Tensor all =
      gather_rows(run.rank_exchange(), {at::tensor(mine, at::kLong)}, run.progress.batch, dataloader_idx, call).to(at::kLong);
  return {all.const_data_ptr<std::int64_t>(), all.const_data_ptr<std::int64_t>() + all.numel()};
}

std::vector<std::string> names_of_samples(const Trainer& trainer, std::span<const std::int64_t> samples,
                                          std::int64_t dataloader_idx) {
  const BatchLoader& loader =
      *TrainerState::of(trainer).progress.batch.loaders.at(static_cast<std::size_t>(dataloader_idx)).loader;
  std::vector<std::string> names;
  for (const std::int64_t sample : samples) {
    names.push_back(sample < 0 ? "" : loader.sample_name(sample));
    if (sample >= 0 && names.back().empty()) return {};
  }
  return names;
}

}  // namespace levin
