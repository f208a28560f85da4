#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/option_type.h"
#include "levin/core/learning_rates.h"

namespace torch::nn {
class Module;
}

namespace levin {

/// {epoch: batches}: from that epoch on, gradients of so many batches make one step. In YAML, a map with epochs as keys.
using AccumulationSchedule = std::map<std::int64_t, std::int64_t>;

template <>
struct LEVIN_API OptionType<AccumulationSchedule> {
  static AccumulationSchedule read(const Value& value);
  static Value write(const AccumulationSchedule& schedule);
  static std::string name() { return "map of epoch to int"; }
  static Value schema();
};

struct LEVIN_API GradientAccumulationSchedulerOptions {
  AccumulationSchedule scheduling;  ///< required

  static void declare(OptionList<GradientAccumulationSchedulerOptions>& options);
};

/// Changes accumulate_grad_batches at given epochs. Epochs count from 0; before the first one given, every batch is a step.
class LEVIN_API GradientAccumulationScheduler final : public WithOptions<Callback, GradientAccumulationSchedulerOptions> {
 public:
  /// Throws ConfigError when the schedule is empty, an epoch is below 0 or a number of batches below 1.
  explicit GradientAccumulationScheduler(Options options);

  std::int64_t accumulate_grad_batches(std::int64_t epoch) const;

  /// What depends on the length of training reckons with the first epoch's batches for a step.
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  /// Throws MisuseError when the module optimizes manually, or the Trainer has an accumulate_grad_batches of its own.
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
};

struct LEVIN_API LearningRateMonitorOptions {
  /// Unset: as often as each scheduler steps.
  std::optional<Interval> logging_interval = std::nullopt;
  bool log_momentum = false;
  bool log_weight_decay = false;
  std::string prefix = {};  ///< before each name: "optim/" makes `optim/lr-SGD` of `lr-SGD`

  static void declare(OptionList<LearningRateMonitorOptions>& options);
};

/// Hands the learning rates of all optimizers to the loggers, and to callback_metrics. The names are `lr-<optimizer class>`, or
/// the scheduler's name; see learning_rates().
class LEVIN_API LearningRateMonitor final : public WithOptions<Callback, LearningRateMonitorOptions> {
 public:
  explicit LearningRateMonitor(const Options& options = {}) : WithOptions("LearningRateMonitor", options) {}

  /// What has been logged, by name.
  const std::map<std::string, std::vector<double>>& lrs() const { return lrs_; }

  /// Throws ConfigError when the Trainer has no logger.
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
  void on_train_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx) override;

 private:
  /// Without a logging_interval only the rates of schedulers of this interval.
  void log(Trainer& trainer, Interval interval);

  std::map<std::string, std::vector<double>> lrs_;
};

struct LEVIN_API ModelSummaryOptions {
  std::int64_t max_depth = 1;  ///< levels of submodules shown; -1: all, 0: no summary

  static void declare(OptionList<ModelSummaryOptions>& options);
};

/// Prints what the model is made of when a fit starts, on rank 0.
class LEVIN_API ModelSummary final : public WithOptions<Callback, ModelSummaryOptions> {
 public:
  explicit ModelSummary(const Options& options = {}) : WithOptions("ModelSummary", options) {}

  CallbackPhase phase() const override { return CallbackPhase::kProgress; }
  void on_fit_start(Trainer& trainer, Module& module) override;
};

/// The table that ModelSummary prints: name, type, parameters and mode of each submodule down to max_depth (-1: all), then the
/// numbers of parameters, their size and the modules in train and eval mode. A parameter that is used twice counts once.
LEVIN_API std::string summarize_model(const torch::nn::Module& model, std::int64_t max_depth = 1);

struct LEVIN_API OnExceptionCheckpointOptions {
  std::filesystem::path dirpath;  ///< required
  std::string filename = "on_exception";

  static void declare(OptionList<OnExceptionCheckpointOptions>& options);
};

/// Saves the state of a run that ends with an error, as `dirpath/filename.ckpt`, replacing an older one. Rank 0 saves alone;
/// other ranks are not waited for. A fit that ends well removes the file.
class LEVIN_API OnExceptionCheckpoint final : public WithOptions<Callback, OnExceptionCheckpointOptions> {
 public:
  explicit OnExceptionCheckpoint(Options options) : WithOptions("OnExceptionCheckpoint", std::move(options)) {}

  std::filesystem::path ckpt_path() const { return options_.dirpath / (options_.filename + ".ckpt"); }

  CallbackPhase phase() const override { return CallbackPhase::kCheckpoint; }
  void on_exception(Trainer& trainer, Module& module, const std::exception& error) override;
  void on_fit_end(Trainer& trainer, Module& module) override;
};

struct LEVIN_API TimerOptions {
  std::optional<Duration> duration = std::nullopt;  ///< of training; unset: only measures
  Interval interval = Interval::kStep;              ///< how often the limit is looked at
  bool verbose = true;                              ///< say when the limit is reached

  static void declare(OptionList<TimerOptions>& options);
};

/// Measures the time spent in training, validation and testing, and ends training after a given time. The time of a run that
/// is resumed counts on. Rank 0's clock decides: its wish to stop is a vote, which stops all ranks at the same step.
class LEVIN_API Timer final : public WithOptions<Callback, TimerOptions> {
 public:
  explicit Timer(const Options& options = {}) : WithOptions("Timer", options) {}

  /// Seconds spent in a stage so far, or in its last run.
  double time_elapsed(Stage stage = Stage::kTrain) const;
  /// Seconds of training that are left; unset without a duration.
  std::optional<double> time_remaining() const;

  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void on_fit_start(Trainer& trainer, Module& module) override;
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_validation_start(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;
  void on_test_start(Trainer& trainer, Module& module) override;
  void on_test_end(Trainer& trainer, Module& module) override;

 private:
  struct Span {
    std::optional<double> start;
    std::optional<double> end;
  };
  void begin(Stage stage);
  void end(Stage stage);
  void check(Trainer& trainer);

  std::array<Span, 5> spans_;
  double earlier_training_ = 0;  ///< seconds of the run that this one goes on from
  bool told_ = false;
};

/// What follows when something is not as it should be.
enum class OnDifference : std::uint8_t { kWarn, kError };
template <>
inline constexpr std::array kChoices<OnDifference> = {Choice{OnDifference::kWarn, "warn"},
                                                      Choice{OnDifference::kError, "error"}};

struct LEVIN_API SpikeDetectionOptions {
  MonitorMode mode = MonitorMode::kMin;             ///< which losses are better
  std::int64_t window = 10;                         ///< batches whose mean a loss is compared with
  std::int64_t warmup = 1;                          ///< batches of an epoch before the first that is looked at
  std::optional<double> atol = std::nullopt;        ///< a spike is at least this far from the mean
  std::optional<double> rtol = 2.0;                 ///< and at least this many times the mean
  std::filesystem::path exclude_batches_path = {};  ///< a folder, or a .json file; empty: default_root_dir
  bool finite_only = true;                          ///< a loss that is NaN or infinite is a spike, too

  static void declare(OptionList<SpikeDetectionOptions>& options);
};

/// A loss leapt away from those before it. Thrown on every rank, at the same batch.
class LEVIN_API TrainingSpikeError final : public Error {
 public:
  TrainingSpikeError(const std::string& message, std::int64_t batch_idx) : Error(message), batch_idx_(batch_idx) {}
  ~TrainingSpikeError() override;
  std::int64_t batch_idx() const { return batch_idx_; }

 private:
  std::int64_t batch_idx_;
};

/// Ends a run whose loss leaps: when it is worse than the last one and far from the mean of those before, on any rank. The
/// batch and the one before it, which may have spoilt the weights, are written to skip_batches.json. Ranks: all; an exchange of
/// 16 bytes a batch, for which the loss is read from its device. Lightning's SpikeDetection.
class LEVIN_API SpikeDetection final : public WithOptions<Callback, SpikeDetectionOptions> {
 public:
  explicit SpikeDetection(Options options = {}) : WithOptions("SpikeDetection", std::move(options)) {}

  /// So that a rank without a batch takes part.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }
  /// All batches that have been listed, by their numbers in their epochs.
  const std::vector<std::int64_t>& bad_batches() const { return state_.bad_batches; }

  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  /// Throws TrainingSpikeError.
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  bool is_spike(double loss, double mean) const;
  std::filesystem::path write_bad_batches(const Trainer& trainer) const;

  /// Under Lightning's names.
  struct State {
    double last_val = 0;
    std::vector<double> running;  ///< the last losses that were no spikes
    std::vector<std::int64_t> bad_batches;
  };
  State state_;
};

struct LEVIN_API GradientSyncCheckOptions {
  std::int64_t every_n_steps = 100;  ///< of each optimizer, from its first step on
  OnDifference on_difference = OnDifference::kError;

  static void declare(OptionList<GradientSyncCheckOptions>& options);
};

/// Looks, before an optimizer steps, whether all ranks hold the same bits of every parameter and gradient, and names those that
/// differ: with the rank and by how much at most. What makes weights differ shows too, such as learning rates that a hook sets
/// by rank. Parameters of the optimizer that got no gradient are named in a warning, on one process too. A check costs one
/// exchange of 16 bytes a parameter, and reads all weights and gradients once.
class LEVIN_API GradientSyncCheck final : public WithOptions<Callback, GradientSyncCheckOptions> {
 public:
  explicit GradientSyncCheck(const Options& options = {}) : WithOptions("GradientSyncCheck", options) {}

  /// Throws DesyncError, on every rank, when ranks differ and that is an error.
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;

 private:
  std::map<const torch::optim::Optimizer*, std::int64_t> steps_;
};

}  // namespace levin

// Every hook of Callback in the order of a run: HOOK(name, parameters, arguments).
#define LEVIN_LAMBDA_RUN_HOOK(HOOK, name) HOOK(name, (Trainer & trainer, Module & module), (trainer, module))
#define LEVIN_LAMBDA_OPTIMIZER_HOOK(HOOK, name) \
  HOOK(name, (Trainer & trainer, Module & module, torch::optim::Optimizer & optimizer), (trainer, module, optimizer))
#define LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, stage, Output)                                                            \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_start)                                                                     \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_epoch_start)                                                               \
  HOOK(on_##stage##_batch_start,                                                                                      \
       (Trainer & trainer, Module & module, const Batch& batch, std::int64_t batch_idx, std::int64_t dataloader_idx), \
       (trainer, module, batch, batch_idx, dataloader_idx))                                                           \
  HOOK(on_##stage##_batch_end,                                                                                        \
       (Trainer & trainer, Module & module, const Output& output, const Batch& batch, std::int64_t batch_idx,         \
        std::int64_t dataloader_idx),                                                                                 \
       (trainer, module, output, batch, batch_idx, dataloader_idx))                                                   \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_epoch_end)                                                                 \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_end)
#define LEVIN_LAMBDA_HOOKS(HOOK)                                                                                              \
  HOOK(setup, (Trainer & trainer, Module & module, Stage stage), (trainer, module, stage))                                    \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_fit_start)                                                                                   \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_sanity_check_start)                                                                          \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_sanity_check_end)                                                                            \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_start)                                                                                 \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_epoch_start)                                                                           \
  HOOK(on_train_batch_start, (Trainer & trainer, Module & module, const Batch& batch, std::int64_t batch_idx),                \
       (trainer, module, batch, batch_idx))                                                                                   \
  LEVIN_LAMBDA_OPTIMIZER_HOOK(HOOK, on_before_zero_grad)                                                                      \
  HOOK(on_before_backward, (Trainer & trainer, Module & module, const at::Tensor& loss), (trainer, module, loss))             \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_after_backward)                                                                              \
  LEVIN_LAMBDA_OPTIMIZER_HOOK(HOOK, on_before_optimizer_step)                                                                 \
  HOOK(on_train_batch_end,                                                                                                    \
       (Trainer & trainer, Module & module, const StepOutput& output, const Batch& batch, std::int64_t batch_idx),            \
       (trainer, module, output, batch, batch_idx))                                                                           \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_epoch_end)                                                                             \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_end)                                                                                   \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_fit_end)                                                                                     \
  LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, validation, StepOutput)                                                                 \
  LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, test, StepOutput)                                                                       \
  LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, predict, Batch)                                                                         \
  HOOK(on_rank_metrics, (Trainer & trainer, Module & module, const MetricRow& row, const std::vector<MetricMap>& by_rank),    \
       (trainer, module, row, by_rank))                                                                                       \
  HOOK(on_exception, (Trainer & trainer, Module & module, const std::exception& error), (trainer, module, error))             \
  HOOK(on_save_checkpoint, (Trainer & trainer, Module & module, Checkpoint & checkpoint), (trainer, module, checkpoint))      \
  HOOK(on_load_checkpoint, (Trainer & trainer, Module & module, const Checkpoint& checkpoint), (trainer, module, checkpoint)) \
  HOOK(teardown, (Trainer & trainer, Module & module, Stage stage), (trainer, module, stage))

namespace levin {

/// One function a hook, with the hook's name and arguments; those left out do nothing. Written with designated initializers.
struct LEVIN_API LambdaCallbackOptions {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define LEVIN_LAMBDA_MEMBER(name, parameters, arguments) std::function<void parameters> name = nullptr;
  LEVIN_LAMBDA_HOOKS(LEVIN_LAMBDA_MEMBER)
#undef LEVIN_LAMBDA_MEMBER
};

/// Runs the functions it is given, for a callback that is not worth a class. C++ only: YAML cannot name a function.
///
///     std::make_shared<levin::LambdaCallback>(levin::LambdaCallbackOptions{
///         .on_train_epoch_end = [](auto& trainer, auto&) { std::puts("…"); }});
class LEVIN_API LambdaCallback final : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbackOptions functions) : functions_(std::move(functions)) {}

#define LEVIN_LAMBDA_OVERRIDE(name, parameters, arguments) \
  void name parameters override {                          \
    if (functions_.name) functions_.name arguments;        \
  }
  LEVIN_LAMBDA_HOOKS(LEVIN_LAMBDA_OVERRIDE)
#undef LEVIN_LAMBDA_OVERRIDE

 private:
  LambdaCallbackOptions functions_;
};

}  // namespace levin

#undef LEVIN_LAMBDA_HOOKS
#undef LEVIN_LAMBDA_EVALUATION_HOOKS
#undef LEVIN_LAMBDA_OPTIMIZER_HOOK
#undef LEVIN_LAMBDA_RUN_HOOK
