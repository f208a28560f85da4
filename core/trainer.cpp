#include "levin/core/trainer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <system_error>

#include "levin/core/console/core_contention.h"
#include "levin/core/console/rank_messages.h"
#include "levin/core/error.h"
#include "levin/core/loops/evaluation_report.h"
#include "levin/core/resume/checkpoint_state.h"
#include "levin/core/rows/metric_rows.h"
#include "levin/core/run/announcements.h"
#include "levin/core/run/entry_point.h"
#include "levin/core/run/module_attachment.h"
#include "levin/core/run/runtime.h"
#include "levin/core/run/torch_warnings.h"

namespace levin {

namespace {

/// Settings of LibTorch that belong to the process, for as long as an entry point lasts.
class ProcessSettings {
 public:
  explicit ProcessSettings(const TrainerOptions& options)
      : deterministic_(at::globalContext().deterministicAlgorithms()),
        anomaly_(torch::autograd::AnomalyMode::is_enabled()),
        threads_(at::get_num_threads()) {
    // Not a number that follows the load: the order of sums depends on it, and with it the last bits of results.
    if (options.threads) at::set_num_threads(static_cast<int>(*options.threads));
    contention_.emplace(at::get_num_threads());
    if (options.deterministic) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    if (options.detect_anomaly) torch::autograd::AnomalyMode::set_enabled(true);
  }
  ~ProcessSettings() {
    if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
    at::globalContext().setDeterministicAlgorithms(deterministic_, false);
    torch::autograd::AnomalyMode::set_enabled(anomaly_);
  }
  ProcessSettings(const ProcessSettings&) = delete;
  ProcessSettings& operator=(const ProcessSettings&) = delete;

 private:
  bool deterministic_;
  bool anomaly_;
  int threads_;
  std::optional<ContentionWatch> contention_;
  TorchWarnings warnings_;
  c10::WarningUtils::WarningHandlerGuard warnings_guard_{&warnings_};
};

void run_fit(Trainer::Runtime& runtime, Module& module, DataSource source, const RunOptions& run) {
  const ProcessSettings settings(runtime.options);
  EntryPoint entry(runtime, module, std::move(source), Stage::kTrain, run);
  entry.run([&] { FitLoop(runtime, entry.precision(), entry.source()).run(entry.resume_point()); });
}

const std::optional<Limit>& evaluation_limit(const TrainerOptions& options, Stage stage) {
  if (stage == Stage::kTest) return options.limit_test_batches;
  return stage == Stage::kPredict ? options.limit_predict_batches : options.limit_val_batches;
}

const char* evaluation_limit_name(Stage stage) {
  if (stage == Stage::kTest) return "limit_test_batches";
  return stage == Stage::kPredict ? "limit_predict_batches" : "limit_val_batches";
}

void run_evaluation(Trainer::Runtime& runtime, Module& module, DataSource source, Stage stage, const RunOptions& run,
                    const std::function<void(EvaluationLoop&)>& take) {
  const ProcessSettings settings(runtime.options);
  EntryPoint entry(runtime, module, std::move(source), stage, run);
  entry.run([&] {
    LoaderList loaders = entry.source().evaluation(runtime, stage);
    if (loaders.empty()) {
      throw MisuseError(std::string(stage_name(stage)) +
                        " needs data: pass loaders, or a data module (`data:` in a YAML file) that gives them for " +
                        std::string(stage_name(stage)) + ", or let the module give them itself.");
    }
    EvaluationLoop loop(runtime, entry.precision(), stage, std::move(loaders), evaluation_limit(runtime.options, stage),
                        evaluation_limit_name(stage));
    if (run.verbose) announce_rank(runtime, evaluation_loaders(stage, loop.loaders(), loop.num_batches()));
    loop.run();
    take(loop);
  });
}

std::vector<MetricMap> evaluate(Trainer::Runtime& runtime, Module& module, DataSource source, Stage stage,
                                const RunOptions& run) {
  std::vector<MetricMap> results;
  run_evaluation(runtime, module, std::move(source), stage, run, [&](EvaluationLoop& loop) { results = loop.results(); });
  if (run.verbose) rank_zero_info(evaluation_report(stage, results));
  return results;
}

std::vector<std::vector<Batch>> predict_all(Trainer::Runtime& runtime, Module& module, DataSource source,
                                            const RunOptions& run) {
  std::vector<std::vector<Batch>> predictions;
  run_evaluation(runtime, module, std::move(source), Stage::kPredict, run,
                 [&](EvaluationLoop& loop) { predictions = loop.take_predictions(); });
  return predictions;
}

const MetricMap kNoMetrics;

}  // namespace

Trainer::Trainer(TrainerOptions options) : runtime_(std::make_unique<Runtime>(*this, std::move(options))) {}
Trainer::~Trainer() { ModuleAttachment::detach(*runtime_); }

void Trainer::fit(Module& module, DataModule& data, const RunOptions& run) {
  run_fit(*runtime_, module, DataSource::from(data), run);
}
void Trainer::fit(Module& module, LoaderPtr train, LoaderList validation, const RunOptions& run) {
  run_fit(*runtime_, module, DataSource::from(std::move(train), std::move(validation)), run);
}
void Trainer::fit(Module& module, const RunOptions& run) { run_fit(*runtime_, module, DataSource::from(nullptr, {}), run); }
std::vector<MetricMap> Trainer::validate(Module& module, DataModule& data, const RunOptions& run) {
  return evaluate(*runtime_, module, DataSource::from(data), Stage::kValidate, run);
}
std::vector<MetricMap> Trainer::validate(Module& module, LoaderList loaders, const RunOptions& run) {
  return evaluate(*runtime_, module, DataSource::from(nullptr, std::move(loaders)), Stage::kValidate, run);
}
std::vector<MetricMap> Trainer::test(Module& module, DataModule& data, const RunOptions& run) {
  return evaluate(*runtime_, module, DataSource::from(data), Stage::kTest, run);
}
std::vector<MetricMap> Trainer::test(Module& module, LoaderList loaders, const RunOptions& run) {
  return evaluate(*runtime_, module, DataSource::from(nullptr, std::move(loaders)), Stage::kTest, run);
}
std::vector<std::vector<Batch>> Trainer::predict(Module& module, DataModule& data, const RunOptions& run) {
  return predict_all(*runtime_, module, DataSource::from(data), run);
}
std::vector<std::vector<Batch>> Trainer::predict(Module& module, LoaderList loaders, const RunOptions& run) {
  return predict_all(*runtime_, module, DataSource::from(nullptr, std::move(loaders)), run);
}

const TrainerOptions& Trainer::options() const { return runtime_->options; }
Stage Trainer::stage() const { return runtime_->state.stage; }
bool Trainer::fitting() const { return runtime_->state.fitting; }
std::int64_t Trainer::current_epoch() const { return runtime_->state.epoch; }
std::int64_t Trainer::global_step() const { return runtime_->state.global_step; }
std::int64_t Trainer::batch_idx() const { return runtime_->state.batch_idx; }
std::int64_t Trainer::dataloader_idx() const { return runtime_->state.dataloader_idx; }
std::int64_t Trainer::num_training_batches() const { return runtime_->state.num_training_batches; }
const std::vector<std::int64_t>& Trainer::num_evaluation_batches() const { return runtime_->state.num_evaluation_batches; }
std::int64_t Trainer::total_batch_idx() const { return runtime_->state.total_batch_idx; }
bool Trainer::validates() const { return runtime_->state.validates; }
std::int64_t Trainer::accumulate_grad_batches() const { return runtime_->state.accumulate_grad_batches; }
bool Trainer::is_last_batch() const { return runtime_->state.is_last_batch; }

std::int64_t Trainer::estimated_stepping_batches() const {
  const TrainerOptions& options = runtime_->options;
  const std::int64_t batches = runtime_->state.num_training_batches;
  if (*options.max_epochs < 0 || batches < 0) return options.max_steps;
  const std::int64_t every = runtime_->state.accumulate_grad_batches;
  const std::int64_t steps = (batches + every - 1) / every * *options.max_epochs;
  return options.max_steps >= 0 ? std::min(steps, options.max_steps) : steps;
}

const MetricMap& Trainer::callback_metrics() const {
  return runtime_->metrics ? runtime_->metrics->callback_metrics() : kNoMetrics;
}
const MetricMap& Trainer::logged_metrics() const {
  return runtime_->metrics ? runtime_->metrics->logged_metrics() : kNoMetrics;
}
const MetricMap& Trainer::progress_bar_metrics() const {
  return runtime_->metrics ? runtime_->metrics->progress_bar_metrics() : kNoMetrics;
}
std::optional<double> Trainer::monitored(std::string_view name) const {
  return runtime_->metrics ? runtime_->metrics->monitored(name) : std::nullopt;
}
void Trainer::set_callback_metric(std::string_view name, double value) {
  if (runtime_->metrics) runtime_->metrics->set_callback_metric(name, value);
}

int Trainer::rank() const { return runtime_->strategy->rank(); }
int Trainer::world_size() const { return runtime_->strategy->world_size(); }
int Trainer::local_rank() const { return runtime_->strategy->local_rank(); }
Strategy& Trainer::strategy() const { return *runtime_->strategy; }
at::Device Trainer::device() const { return runtime_->strategy->device(); }
const std::vector<std::shared_ptr<Callback>>& Trainer::callbacks() const { return runtime_->callbacks; }
const std::vector<std::shared_ptr<Logger>>& Trainer::loggers() const { return runtime_->loggers; }
const std::vector<std::shared_ptr<torch::optim::Optimizer>>& Trainer::optimizers() const { return runtime_->optimizers; }
const std::vector<SchedulerConfig>& Trainer::scheduler_configs() const { return runtime_->schedulers; }

std::filesystem::path Trainer::default_root_dir() const {
  if (runtime_->options.default_root_dir) return *runtime_->options.default_root_dir;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  if (error)
    throw IoError("The working folder is gone (" + error.message() + "): set default_root_dir, or start in another one.");
  return folder;
}
std::filesystem::path Trainer::log_dir() const {
  for (const auto& logger : runtime_->loggers) {
    if (std::filesystem::path folder = logger->log_dir(); !folder.empty()) return folder;
  }
  return default_root_dir();
}

void Trainer::stop(const std::string& reason) {
  runtime_->state.stop_wish = true;
  if (!reason.empty()) runtime_->state.stop_reason = reason;
}
bool Trainer::should_stop() const { return runtime_->state.stop_wish || runtime_->state.stop_agreed; }
std::string Trainer::stop_reason() const { return runtime_->state.end_reason; }

void Trainer::clear_stop() {
  runtime_->state.stop_wish = false;
  runtime_->state.stop_reason.clear();
}
void Trainer::skip_epoch() { runtime_->state.skip_epoch_wish = true; }
void Trainer::set_accumulate_grad_batches(std::int64_t batches) {
  if (batches < 1) throw MisuseError("set_accumulate_grad_batches: " + std::to_string(batches) + " is less than 1.");
  runtime_->state.accumulate_grad_batches = batches;
}
void Trainer::save_checkpoint(const std::filesystem::path& file, bool weights_only) { save_run(*runtime_, file, weights_only); }
void Trainer::log_to_loggers(const MetricMap& values, std::optional<std::int64_t> step) {
  const LoopState& state = runtime_->state;
  // The run that this one resumes has written what the hooks say that only set things up again.
  if (!runtime_->is_global_zero() || state.replaying) return;
  for (const auto& logger : runtime_->loggers) {
    logger->log_metrics({state.stage, state.epoch, step.value_or(state.logging_step), /*epoch_end=*/false, values});
  }
}
void Trainer::on_log_dir(std::function<void(const std::filesystem::path&)> save) { runtime_->save_config = std::move(save); }
void Trainer::override_optimizers(std::shared_ptr<OptimizerFactory> optimizer, std::shared_ptr<LrSchedulerFactory> scheduler,
                                  const Value& scheduler_settings) {
  runtime_->optimizer_factory = std::move(optimizer);
  runtime_->scheduler_factory = std::move(scheduler);
  runtime_->scheduler_settings = scheduler_settings;
}
void Trainer::set_checkpoint_alias(const std::string& alias, const std::filesystem::path& file) {
  runtime_->checkpoint_aliases[alias] = file;
}

}  // namespace levin
