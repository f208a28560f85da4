#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "levin/core/options/choice.h"
#include "levin/core/trainer_options.h"

namespace levin {

/// How long a fit is, from its beginning: for what has to know before training begins. Only what max_epochs, max_steps and the
/// number of batches say; an earlier stop cannot be known.
class TrainingLength {
 public:
  /// `accumulate_grad_batches`: batches of a step. `epoch_batches`: of an epoch, -1 for unknown; asked for where the number
  /// matters only, since it takes the training loader.
  TrainingLength(const TrainerOptions& options, std::int64_t accumulate_grad_batches,
                 std::function<std::int64_t()> epoch_batches);

  /// Steps of the optimizer, as Lightning's estimated_stepping_batches; unset when unknown.
  std::optional<std::int64_t> optimizer_steps() const;
  /// Steps of a schedule that makes one every `frequency` intervals, as SchedulerRunner counts them.
  std::optional<std::int64_t> schedule_steps(Interval interval, std::int64_t frequency) const;

 private:
  std::optional<std::int64_t> epochs() const;
  /// Steps of a schedule in so many batches of one epoch.
  std::int64_t schedule_steps_in(std::int64_t batches, std::int64_t frequency) const;
  std::int64_t optimizer_steps_in(std::int64_t batches) const;

  std::optional<std::int64_t> max_epochs_;
  std::optional<std::int64_t> max_steps_;
  std::int64_t accumulate_;
  std::function<std::int64_t()> epoch_batches_;
};

}  // namespace levin
