#pragma once

#include <array>
#include <cstdint>
#include <exception>
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
#include "levin/core/options/option_type.h"

namespace torch::nn {
class Module;
}

namespace levin {

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

/// The table that ModelSummary prints: name, type, parameters and mode of each submodule down to max_depth (-1: all), then the
/// numbers of parameters, their size and the modules in train and eval mode. A parameter that is used twice counts once.
LEVIN_API std::string summarize_model(const torch::nn::Module& model, std::int64_t max_depth = 1);

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

/// A loss leapt away from those before it. Thrown on every rank, at the same batch.
class LEVIN_API TrainingSpikeError final : public Error {
 public:
  TrainingSpikeError(const std::string& message, std::int64_t batch_idx) : Error(message), batch_idx_(batch_idx) {}
  ~TrainingSpikeError() override;
  std::int64_t batch_idx() const { return batch_idx_; }

 private:
  std::int64_t batch_idx_;
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
