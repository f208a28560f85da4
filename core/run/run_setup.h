#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"
#include "levin/core/logger.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer_options.h"

namespace levin {

using CallbackList = std::vector<std::shared_ptr<Callback>>;

/// The user's objects that take part in a run. The entry point sets them; all but the data module stay until the next one.
struct RunParts {
  Module* module = nullptr;
  std::vector<const Module*> modules_below;  ///< those below `module` that are tied to this run
  DataModule* data = nullptr;
  CallbackList callbacks;  ///< in the order in which hooks run
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<SchedulerConfig> schedulers;
};

/// What module and data were made with: maps under `model` and `data`, as both may have an option of one name; empty for none.
Value hyperparams_of(const RunParts& parts);

/// What a Trainer was made of, for as long as it lives.
struct RunSetup {
  /// Launches the strategy: from here on this process is one rank of the run. Throws ConfigError on wrong options, before that.
  /// `in_use`: a strategy that is launched already, if the options name that; null for none.
  explicit RunSetup(TrainerOptions given, const Strategy* in_use = nullptr);

  bool limits_given;       ///< the user said when training stops
  TrainerOptions options;  ///< after the rules between flags were applied (fast_dev_run, barebones, …)
  std::shared_ptr<Strategy> strategy;
  std::vector<std::shared_ptr<Logger>> loggers;
  std::shared_ptr<Profiler> profiler;  ///< null for none
  CallbackList callbacks;              ///< the options' own, without those of a module
  /// The seed of the loaders' order: rank 0's seed_everything(), or that of the resumed fit.
  std::int64_t data_seed = 0;
  // What trials have found for the fit.
  std::optional<double> learning_rate;     ///< that optimizers begin with
  std::optional<std::int64_t> batch_size;  ///< of the training loader

  int world_size() const { return strategy->world_size(); }
  bool is_global_zero() const { return strategy->rank() == 0; }

  /// Calls what it is given.
  using Caller = std::function<void(const std::function<void()>&)>;
  /// Reports to each logger, through `call`, how the run has ended.
  void end_loggers(
      RunOutcome outcome, const Caller& call = [](const auto& end) { end(); }) const;
};

/// The accelerator of this process, for code without a Trainer.
struct CurrentDevice {
  std::shared_ptr<const Accelerator> accelerator;
  at::Device device{at::kCPU};
};
/// Called: by Strategy::launch().
void set_current_device(CurrentDevice device);

/// Gives the console the run's level, rank and log file.
void configure_console(const RunSetup& setup);

/// As given, but those that save checkpoints come last.
CallbackList in_hook_order(CallbackList callbacks);
/// `own` with the module's callbacks added; one of the module's replaces those of the same class.
CallbackList merge_callbacks(CallbackList own, const CallbackList& of_module);

/// Throws ConfigError when two callbacks would save their state under one key, so that one would take the other's.
void check_state_keys(const CallbackList& callbacks);
/// What callbacks keep in a checkpoint, by state_key(). Throws likewise: a callback may have nothing to keep before it runs.
Value states_of(const CallbackList& callbacks);
/// What learning-rate schedulers keep in a checkpoint, in their order.
Value states_of(const std::vector<SchedulerConfig>& schedulers);

}  // namespace levin
