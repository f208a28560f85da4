#pragma once

#include <optional>

#include "levin/core/config/option_type.h"
#include "levin/core/config/trainer_values.h"
#include "levin/core/run/progress.h"
#include "levin/core/run/run_wishes.h"
#include "levin/core/trainer_options.h"

namespace levin {

/// A limit that leaves any batches.
bool takes_batches(const Limit& limit);

/// Batches of a loader after its limit; nullopt: neither says. Throws ConfigError when a share is of an unknown number or
/// leaves none.
std::optional<std::int64_t> limited_batches(std::optional<std::int64_t> loader_batches, const std::optional<Limit>& limit,
                                            const std::string& option_name);

/// After how many batches reading such a loader ends; nullopt: with its last. A limit in batches holds for unknown length, too.
std::optional<std::int64_t> batch_cap(const std::optional<std::int64_t>& batches, const std::optional<Limit>& limit);

/// When validation runs during a training epoch, of known length or not. For a time interval only in which epochs it may.
class ValidationSchedule {
 public:
  /// The Trainer's val_check_interval and check_val_every_n_epoch. Throws ConfigError when the interval does not fit the epoch.
  ValidationSchedule(const std::optional<CheckInterval>& interval, std::optional<std::int64_t> every_n_epochs,
                     std::optional<std::int64_t> batches_per_epoch, bool validation_enabled);
  ValidationSchedule() = default;

  /// After batch `batch_idx` of epoch `epoch`; `total_batch_idx` counts over all epochs. All from 0. Where an epoch ends before
  /// its time, what was still to come in it is due with its last batch.
  bool due(std::int64_t epoch, std::int64_t batch_idx, std::int64_t total_batch_idx, bool is_last_batch) const;
  /// Validation may run in this epoch at all.
  bool epoch_enabled(std::int64_t epoch) const { return enabled_ && (!every_n_epochs_ || (epoch + 1) % *every_n_epochs_ == 0); }

 private:
  bool enabled_ = false;
  bool by_time_ = false;
  std::optional<std::int64_t> every_n_epochs_ = 1;
  std::optional<std::int64_t> every_n_batches_;    ///< unset: at the last batch
  std::optional<std::int64_t> batches_per_epoch_;  ///< as loaders say
};

/// Whether a training epoch ends with the first rank that runs out of batches: as `uneven: drop` asks, and as it must where
/// only the user's code knows which reductions a step does (manual optimization).
inline bool ends_with_first_rank(const TrainerOptions& options, bool automatic_optimization) {
  return options.uneven == Uneven::kDrop || !automatic_optimization;
}

/// The ranks that still have batches in a training epoch, so that all stay in step. An iteration is one micro-batch on every
/// rank that has one; the others take part without.
class EpochPlan {
 public:
  /// `rank_batches`: -1 for unknown. `stop_with_first`: see ends_with_first_rank().
  EpochPlan(const std::vector<std::int64_t>& rank_batches, bool stop_with_first);
  EpochPlan() = default;

  bool known() const { return iterations_ >= 0; }
  /// Iterations of the epoch; -1 when unknown.
  std::int64_t iterations() const { return iterations_; }
  bool is_last(std::int64_t iteration) const { return known() && iteration + 1 >= iterations_; }

 private:
  std::int64_t iterations_ = -1;
};

/// When training ends. All answers follow from shared values, so that all ranks end together.
class StopConditions {
 public:
  StopConditions(const TrainerOptions& options, const Progress& progress, const RunWishes& wishes, int world_size)
      : options_(options), progress_(progress), wishes_(wishes), world_size_(world_size) {}

  /// The ranks agreed to stop, and min_epochs and min_steps let them.
  bool stopping() const {
    return wishes_.stop_agreed() && progress_.epoch >= options_.min_epochs.value_or(0) &&
           progress_.global_step >= options_.min_steps.value_or(0);
  }
  /// What keeps ranks that agreed to stop from it: "min_epochs=3 and min_steps=100"; "" for nothing.
  std::string what_holds_it_up() const;
  /// No further batch of the epoch under way.
  bool ends_epoch() const { return steps_are_done() || stopping(); }
  /// Why there is no further epoch; unset when there is one. `plan`: of the next epoch.
  std::optional<std::string> reason(const EpochPlan& plan) const;

 private:
  bool steps_are_done() const { return options_.max_steps >= 0 && progress_.global_step >= options_.max_steps; }

  const TrainerOptions& options_;
  const Progress& progress_;
  const RunWishes& wishes_;
  int world_size_;
};

/// How long a fit is, from its beginning, by max_epochs, max_steps and the number of batches; an earlier stop cannot be known.
class TrainingLength {
 public:
  /// `epoch_batches`: -1 for unknown; called only where the number matters, since it takes the training loader.
  TrainingLength(const TrainerOptions& options, std::int64_t accumulate_grad_batches,
                 std::function<std::int64_t()> epoch_batches);

  /// Steps of the optimizer, as Lightning's estimated_stepping_batches; unset when unknown.
  std::optional<std::int64_t> optimizer_steps() const;
  /// Steps of a schedule that makes one every `frequency` intervals, as SchedulerRunner counts them.
  std::optional<std::int64_t> schedule_steps(Interval interval, std::int64_t frequency) const;

 private:
  std::optional<std::int64_t> epochs() const;
  std::int64_t schedule_steps_in(std::int64_t batches, std::int64_t frequency) const;
  std::int64_t optimizer_steps_in(std::int64_t batches) const { return (batches + accumulate_ - 1) / accumulate_; }

  std::optional<std::int64_t> max_epochs_;
  std::optional<std::int64_t> max_steps_;
  std::int64_t accumulate_;
  std::function<std::int64_t()> epoch_batches_;
};

}  // namespace levin
