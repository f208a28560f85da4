#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "levin/core/checkpoint/background_files.h"
#include "levin/core/engine/parts/run_setup.h"
#include "levin/core/engine/parts/stop_request.h"
#include "levin/core/engine/state/resume_state.h"
#include "levin/core/engine/step/optimization.h"
#include "levin/core/engine/step/optimizers.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/trainer.h"

namespace levin {

class DataSource;
class ModuleModes;

/// What entry points leave to one another.
struct EntryState {
  bool active = false;
  std::thread::id thread;  ///< while active: the one that runs the hooks
  bool failing = false;    ///< an error is leaving the entry point: nothing may communicate any more
  bool loggers_open = false;
  bool hyperparams_logged = false;
  std::optional<Failure> failure;
  std::function<void(const std::filesystem::path& folder, const std::filesystem::path& checkpoint)> save_config;
};

/// What a Trainer owns: one object for each purpose. What drives a run (entry point, loops, checkpoints) is given all of them;
/// what does one thing is given those that it uses.
struct TrainerState {
  TrainerState(Trainer& owner, TrainerOptions options);
  /// The one behind the facade.
  static TrainerState& of(const Trainer& trainer) { return *trainer.state_; }

  Trainer& trainer;
  RunSetup setup;
  RunParts parts;
  Progress progress;
  StopRequest stop;
  GradientAccumulation accumulation;
  ResumeState resume;
  OptimizerOverride optimizer_override;
  EntryState entry;
  std::unique_ptr<MetricStore> metrics;
  HookTracker tracker{progress, *metrics, *setup.strategy};
  HookRunner hooks{&trainer, parts, tracker, setup.profiler.get()};
  Boundaries boundaries{progress, accumulation, *metrics, stop, setup.profiler.get()};
  TrainedParameters trained{setup, parts};
  NanGuard nan{setup, progress, tracker};
  GradientScaler scaler;
  UnregisteredLeaves leaves{parts};
  StepGraph graph{setup};
  StepOutput evaluation_output;      ///< what a validation or test step keeps for the hooks that follow it
  std::string failed_batch;          ///< the batch that an error has left, in words
  StepVotes* step_votes = nullptr;   ///< while training runs
  DataSource* data_ahead = nullptr;  ///< of a fit whose data is set up, until it begins to train
  /// While an evaluation runs, and after one that an error or a signal has left: the modes that a checkpoint keeps.
  std::shared_ptr<const ModuleModes> modes_after_evaluation;
  BackgroundFiles files;  ///< last: what it still tells is told to the others

  StepContext step_context() { return {strategy(), parts, progress, hooks, accumulation, nan, scaler, leaves, graph}; }
  Module& module() const { return *parts.module; }
  Strategy& strategy() const { return *setup.strategy; }
  const TrainerOptions& options() const { return setup.options; }
  int world_size() const { return setup.world_size(); }
  bool is_global_zero() const { return setup.is_global_zero(); }
};

/// Ties a module, and the modules below it, to the Trainer that runs it: from an entry point until the next one, or until one
/// of the two is gone.
class ModuleAttachment {
 public:
  /// Says for a scope, an entry point, that this thread runs the hooks of a Trainer. A module below its module which was added
  /// meanwhile is found by that when it first asks.
  class Scope {
   public:
    explicit Scope(TrainerState& run);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainerState* outer_;
  };

  /// The Trainer that had the module lets go of it. Throws MisuseError when that one is running it just now.
  static void release(Module& module);
  static void attach(Module& module, TrainerState& run);
  /// The Trainer lets go of its module and of all below it.
  static void detach(TrainerState& run);
  /// Called: by a module's destructor.
  static void forget(Module& module);

  /// True when the module is part of a run.
  static bool find(const Module& module);
  /// Where the module logs; null without a run. A module that logs in a run it is no part of is told of once.
  static MetricStore* metrics(const Module& module, std::string_view name, const SourceLocation& where);

 private:
  static void tie(const Module& module, TrainerState& run);
  /// `run`: null for none.
  static void set(const Module& module, TrainerState* run);
};

}  // namespace levin
