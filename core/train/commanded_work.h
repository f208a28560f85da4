#pragma once

#include <filesystem>

#include "levin/core/run/epoch_plan.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// Does after an iteration what was asked for with Trainer::request() and agreed on in its step: saves a checkpoint, pauses,
/// and says when the training loop is to validate.
class CommandedWork {
 public:
  CommandedWork(TrainerState& run, const StopConditions& stop) : run_(run), stop_(stop) {}

  /// Ranks: all, with what came with the gradients of an iteration. It knows from here on whether it validates.
  void take(const Votes& agreed, Iteration& iteration);
  /// Ranks: all. Has a checkpoint written at the next point, if take() has found that it was asked for.
  void save_if_asked();
  /// Ranks: all, between two batches. Does not return from a pause before it ends, training stops, or all ranks are to
  /// validate. Gives the latter.
  bool obey();

 private:
  /// There is no pause, or none any more. Gives false.
  bool goes_on();
  void save();
  std::filesystem::path free_file() const;

  TrainerState& run_;
  const StopConditions& stop_;
  bool saves_ = false;
  bool pause_is_told_ = false;
};

}  // namespace levin
