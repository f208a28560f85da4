#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/run/loop_state.h"
#include "levin/core/trainer.h"

namespace levin {

class StepVotes;

/// Everything a Trainer is made of. The loops work on it; users see it through the facade only.
struct Trainer::Runtime {
  explicit Runtime(Trainer& trainer, TrainerOptions options);

  Trainer& trainer;
  bool limits_given;       ///< the user said when training stops
  TrainerOptions options;  ///< after the rules between flags were applied (fast_dev_run, barebones, …)
  LoopState state;

  std::shared_ptr<Strategy> strategy;
  std::unique_ptr<MetricStore> metrics;
  std::vector<std::shared_ptr<Callback>> configured_callbacks;  ///< from the options
  std::vector<std::shared_ptr<Callback>> callbacks;             ///< those of this run, in the order in which hooks run
  std::vector<std::shared_ptr<Logger>> loggers;
  bool loggers_open = false;
  bool hyperparams_logged = false;

  StepVotes* step_votes = nullptr;  ///< while training runs
  Module* module = nullptr;
  DataModule* data = nullptr;
  bool in_entry_point = false;
  bool failing = false;                            ///< an error is leaving the entry point: nothing may communicate any more
  std::vector<RankState> rank_states_at_end;       ///< by rank, where all ranks end alike; see keep_rank_states
  std::shared_ptr<const Checkpoint> resumed_from;  ///< until the run has come to where it goes on
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<SchedulerConfig> schedulers;

  std::shared_ptr<OptimizerFactory> optimizer_factory;
  std::shared_ptr<LrSchedulerFactory> scheduler_factory;
  Value scheduler_settings;
  std::map<std::string, std::filesystem::path> checkpoint_aliases;
  std::function<void(const std::filesystem::path&)> save_config;
  std::vector<const Module*> modules_below;  ///< those below `module` that are tied to this run

  int world_size() const { return strategy->world_size(); }
  bool is_global_zero() const { return strategy->rank() == 0; }
  /// Makes the store of an entry point.
  void start_metrics();
  /// Ranks: all. Meets at a boundary with this rank's votes, and takes over what was agreed.
  BoundaryOutcome meet(BoundaryKind kind, const BoundaryWords& words = {});
  /// This rank's votes as they are now.
  Votes votes() const;
  /// Takes over the votes of all ranks, which each of them has. Gives them merged.
  Votes adopt(const std::vector<Votes>& by_rank);
};

}  // namespace levin
