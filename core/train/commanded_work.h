#pragma once

#include <filesystem>

#include "levin/core/run/epoch_plan.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// Carries out after an iteration what Trainer::request() asked for and its step agreed on: saves a checkpoint, pauses, and
/// says when the training loop must validate.
class CommandedWork {
 public:
  CommandedWork(TrainerState& run, const StopConditions& stop) : run_(run), stop_(stop) {}

  /// Ranks: all, with the votes of an iteration. Also sets whether the iteration validates.
  void take(const Votes& agreed, Iteration& iteration);
  /// Ranks: all. Has a checkpoint written at the next point, if take() has found a request for one.
  void save_if_asked();
  /// Ranks: all, between two batches. Returns from a pause when it ends, training stops, or all ranks must validate. True: they
  /// must.
  bool obey();

 private:
  /// Reports the end of a pause, if there was one.
  void end_pause();
  void save();
  std::filesystem::path free_file() const;

  TrainerState& run_;
  const StopConditions& stop_;
  bool saves_ = false;
  bool pause_is_reported_ = false;
};

}  // namespace levin
