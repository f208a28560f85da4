#pragma once

#include <optional>
#include <string>

#include "levin/core/loops/epoch_plan.h"
#include "levin/core/run/progress.h"
#include "levin/core/run/stop_request.h"
#include "levin/core/trainer_options.h"

namespace levin {

/// When training ends. Every answer follows from what all ranks know, so that they end alike.
class StopConditions {
 public:
  StopConditions(const TrainerOptions& options, const Progress& progress, const StopRequest& stop, int world_size)
      : options_(options), progress_(progress), stop_(stop), world_size_(world_size) {}

  /// The ranks agreed to stop, and min_epochs and min_steps let them.
  bool stopping() const;
  /// No further batch of the epoch under way.
  bool ends_epoch() const;
  /// Why there is no further epoch; unset when there is one. `plan`: of the next epoch.
  std::optional<std::string> reason(const EpochPlan& plan) const;

 private:
  bool steps_are_done() const { return options_.max_steps >= 0 && progress_.global_step >= options_.max_steps; }

  const TrainerOptions& options_;
  const Progress& progress_;
  const StopRequest& stop_;
  int world_size_;
};

}  // namespace levin
