#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "levin/core/config/option_type.h"
#include "levin/core/logger.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/random/rng_state.h"

namespace levin {

/// What training does next. A checkpoint says it, and a run that resumes does just that.
///
///       on_train_start        on_train_epoch_start            batches left                 no batch left, or skipped
///     kTrainStart ------> kEpochStart ------------> kBatch <------------+        kBatch ------------------------> kEpochEnd
///                              ^                      | due             |          |                                  |
///                              |                      v                 |          | a limit, a stop                  |
///                              |                 kValidation            |          v                                  |
///                              |                      |                 |       kStopped --> the end of fit            |
///                              |                      v                 |                                             |
///                              |                 kValidationEnd --------+                                             |
///                              +--------------------------------------------------------------------------------------+
///
/// A state begins with begin_place() (run_sections.h), after which each Section remembers what hooks may change up to the
/// next state. Requested checkpoints are written right after it, so they are taken between batches, before and after
/// a validation, and at an epoch's end. For a run that resumes in it:
///
///     state           begun by                             already done                    first thing to do
///     kTrainStart     EntryPoint::set_up                   optimizers are configured       on_fit_start
///     kEpochStart     EpochLoop::start and end             the epochs before               on_train_epoch_start
///     kBatch          EpochLoop::start, finish_iteration   `batches_done` batches          the next batch
///     kValidation     FitValidation::run                   the batch, its hooks, its row   the validation
///     kValidationEnd  FitValidation::run                   the validation, too             schedulers that go by a metric
///     kStopped        EpochLoop::stop_inside               as kBatch                       the next batch
///     kEpochEnd       EpochLoop::reach_end                 all batches and validations     on_train_epoch_end
enum class Place : std::uint8_t { kTrainStart, kEpochStart, kBatch, kValidation, kValidationEnd, kStopped, kEpochEnd };
template <>
inline constexpr std::array kChoices<Place> = {Choice{Place::kTrainStart, "train_start"},
                                               Choice{Place::kEpochStart, "epoch_start"},
                                               Choice{Place::kBatch, "batch"},
                                               Choice{Place::kValidation, "validation"},
                                               Choice{Place::kValidationEnd, "validation_end"},
                                               Choice{Place::kStopped, "stopped"},
                                               Choice{Place::kEpochEnd, "epoch_end"}};

/// Hooks of the start or end of training, or of an epoch, follow: they may set rates, regroup parameters and log.
inline bool has_hooks_of_start_or_end(Place place) {
  return place == Place::kTrainStart || place == Place::kEpochStart || place == Place::kStopped;
}

/// One iteration of an epoch: a batch on every rank that still has one.
struct Iteration {
  std::int64_t index = 0;
  bool starts_window = true;  ///< gradients start at zero
  bool ends_window = true;    ///< the optimizer steps
  bool is_last = false;       ///< no rank has another batch in this epoch
  bool end_epoch = false;     ///< a rank asked to skip the rest of the epoch
  bool validates = false;     ///< a rank requested a validation after it
  bool is_finished = false;   ///< schedulers have stepped after it: a validation in a pause is the last thing that follows
  // Ranks stop with it, inside of an epoch. What they only do for that is a part of Place::kStopped.
  bool row_is_left = false;
  bool validation_is_left = false;
};

/// The counters of training that a source of data may read.
struct ReadingCounters {
  std::int64_t global_step = 0;
  std::int64_t total_batch_idx = 0;
  std::int64_t batch_idx = 0;
};

/// The state of the loader before it read the prefetched batch, which a resumed run reads again.
struct BeforeReading {
  RandomSnapshot random;
  ReadingCounters counters;
};

/// Where training is. Written by the loops, read by checkpoints.
struct LoopPosition {
  Place place = Place::kTrainStart;
  std::int64_t epochs_done = 0;
  std::int64_t batches_done = 0;             ///< iterations of the epoch under way
  std::optional<std::int64_t> samples_done;  ///< of its global order; unset when the loader does not know
  Iteration iteration;                       ///< the last one
  bool completed = true;                     ///< the epoch reached its last batch
  /// In kBatch: the step of the batch under way is taken. A checkpoint is then written only as an error leaves, of the run as
  /// it is; what had to follow the step is left out.
  bool step_is_taken = false;
  std::optional<BeforeReading> before_reading;  ///< the prefetched batch

  /// Nothing of an epoch is left to train: a wish to skip has had its effect.
  bool is_between_epochs() const { return place <= Place::kEpochStart; }
  /// A wish to stop has had its effect.
  bool has_stopped() const { return is_between_epochs() || place == Place::kStopped; }
};

}  // namespace levin
