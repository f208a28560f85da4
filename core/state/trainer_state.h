#pragma once

#include <filesystem>
#include <map>
#include <string_view>
#include <thread>

#include "levin/core/checkpoint/background_files.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/loop_position.h"
#include "levin/core/diagnostics/rank_reports.h"
#include "levin/core/diagnostics/work_watch.h"
#include "levin/core/media/item_queue.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/run/run_setup.h"
#include "levin/core/run/run_wishes.h"
#include "levin/core/run/weight_swap.h"
#include "levin/core/step/optimization.h"
#include "levin/core/step/optimizers.h"
#include "levin/core/trainer.h"

namespace levin {

class DataSource;
class RestartNotes;
class RunSections;

/// Receives a batch of training data.
using BatchVisitor = std::function<void(const Batch& batch, std::int64_t batch_idx)>;

/// What a run needs to be saved, and to reach the point from which it resumes.
struct ResumeState {
  LoopPosition position;
  bool replaying = false;  ///< a resumed run has not reached the point where it was saved; its hooks only set things up
  std::shared_ptr<const Checkpoint> resumed_from;  ///< while replaying
  std::vector<Checkpoint> rank_states_at_end;      ///< by rank, if all ranks end together; see keep_rank_states
  std::map<std::string, std::filesystem::path> checkpoint_aliases;
  std::filesystem::path newest_file;  ///< the last whole checkpoint that was written
  std::filesystem::path good_file;    ///< rank 0: the newest checkpoint that this fit has written, or resumed from
  std::filesystem::path begun_file;   ///< on ranks other than 0: what rank 0 has begun to write since
  /// The steps of begun_file, of newest_file, and of the checkpoint that the run resumed from; 0 without one.
  std::int64_t begun_step = 0, newest_step = 0, resumed_step = 0;
  std::shared_ptr<RestartNotes> notes;  ///< of this fit and earlier ones, for later attempts; null before the first
  std::string queued_job;               ///< set: the checkpoint is for this job, which returns to its queue

  /// The checkpoints that a run could resume from, the newest first, with their steps; some may be missing. `resumed`: the one
  /// that this run resumed from.
  std::vector<std::pair<std::filesystem::path, std::int64_t>> newest_first(const std::filesystem::path& resumed) const {
    return {{begun_file, begun_step}, {newest_file, newest_step}, {resumed, resumed_step}};
  }
  void arrive() {
    replaying = false;
    resumed_from.reset();
  }
};

/// State that one entry point leaves to the next.
struct EntryState {
  bool active = false;
  bool is_trial = false;    ///< of a TrialRunner, within the entry point of another Trainer
  bool is_session = false;  ///< of a Session: its caller gives each batch, and there is no training data to read
  std::thread::id thread;   ///< while active: the one that runs the hooks
  bool failing = false;     ///< an error is leaving the entry point: ranks must not communicate any more
  bool loggers_open = false;
  bool hyperparams_logged = false;
  std::optional<Failure> failure;
  std::function<void(const std::filesystem::path& folder, const std::filesystem::path& checkpoint)> save_config;
};

/// What a Trainer owns, an object for each purpose. Code that drives a run (entry point, loops, checkpoints) gets all of them;
/// other code gets those that it uses.
struct TrainerState {
  TrainerState(Trainer& owner, TrainerOptions options);
  ~TrainerState();
  /// The one behind the facade.
  static TrainerState& of(const Trainer& trainer) { return *trainer.state_; }

  Trainer& trainer;
  RunSetup setup;
  RunParts parts;
  Progress progress;
  RunWishes wishes;
  GradientAccumulation accumulation;
  ResumeState resume;
  OptimizerOverride optimizer_override;
  EntryState entry;
  std::unique_ptr<MetricStore> metrics;
  std::unique_ptr<RunSections> sections;
  std::shared_ptr<ScalarMemory> scalars = std::make_shared<ScalarMemory>();  ///< of what is logged
  HookTracker tracker{progress, *metrics, *setup.strategy};
  HookRunner hooks{&trainer, parts, tracker, setup.profiler.get()};
  Boundaries boundaries{progress, accumulation, *metrics, wishes, setup.profiler.get()};
  TrainedParameters trained{setup, parts};
  WeightSwap weights{parts};
  NanGuard nan{setup, progress, tracker, *metrics, scalars};
  GradientScaler scaler;
  UnregisteredLeaves leaves{parts};
  std::shared_ptr<GatheredGradients> gathered = std::make_shared<GatheredGradients>(setup.strategy);
  WorkMeter work;
  StragglerWatch stragglers;
  RankReports reports;
  StepGraph graph{setup};
  StepMeasures measures;
  StepClosure step_closure;          ///< in place of training_step; empty: the module's
  StepOutput evaluation_output;      ///< the output of a validation or test step, for the hooks that follow it
  std::string failed_batch;          ///< describes the batch in which an error was thrown
  StepVotes* step_votes = nullptr;   ///< while training runs
  DataSource* data_ahead = nullptr;  ///< of a fit, after its data is set up and until it trains
  std::function<void(const BatchVisitor&)> visit_training_data;  ///< while training runs
  /// The modes that a checkpoint saves while an evaluation runs, and after an error or a signal has ended one.
  std::shared_ptr<const ModuleModes> modes_after_evaluation;
  ItemQueue items;
  BackgroundFiles files;  ///< last, so destroyed first: its callbacks use the members above

  StepContext step_context() {
    return {strategy(), parts,     progress, hooks, accumulation, nan,         scaler,
            leaves,     *gathered, graph,    work,  measures,     step_closure};
  }
  /// Ranks reduce gradients in each iteration, and send votes with them. Otherwise ranks meet after each batch.
  bool reduces_gradients() const { return module().automatic_optimization() && !parts.optimizers.empty(); }
  Module& module() const { return *parts.module; }
  Strategy& strategy() const { return *setup.strategy; }
  const TrainerOptions& options() const { return setup.options; }
  RankExchange rank_exchange() const { return RankExchange(strategy().control_group()); }
  int world_size() const { return setup.world_size(); }
  bool is_global_zero() const { return setup.is_global_zero(); }
};

}  // namespace levin
