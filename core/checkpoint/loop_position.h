#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "levin/core/logger.h"
#include "levin/core/options/option_type.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/random/rng_state.h"

namespace levin {

class ModuleModes;
struct OptimizersAtStart;
struct ParameterSet;

/// Of the loops in a checkpoint, the iteration under way; null where there is none. Files of earlier versions have it as
/// "turn".
inline const Value* saved_iteration(const Value& loops) {
  const Value* iteration = loops.find("iteration");
  return iteration != nullptr ? iteration : loops.find("turn");
}

/// What training does next. A checkpoint says it, and a run that resumes goes on there: what is done is not done again, and
/// what is due is not left out. Those marked (*) begin anew when a checkpoint was written while they ran.
enum class Place : std::uint8_t {
  kTrainStart,     ///< (*) on_train_start, and everything after it
  kEpochStart,     ///< (*) on_train_epoch_start
  kBatch,          ///< (*) a batch, from reading it to its optimizer step
  kStopped,        ///< (*) training has ended inside of the epoch, whose next batch has not come: then the hooks of an end
  kBatchEnd,       ///< on_train_batch_end is under way: then the step's row, a validation that is due, schedulers
  kValidation,     ///< (*) a validation, up to the hooks before on_validation_end
  kValidationEnd,  ///< on_validation_end is under way: then schedulers
  kEpochEnd,       ///< on_train_epoch_end is under way: then schedulers and the epoch's row
  kEpochDone       ///< the epoch's row is written; callbacks that save state have their turn in on_train_epoch_end
};
template <>
inline constexpr std::array kChoices<Place> = {Choice{Place::kTrainStart, "train_start"},
                                               Choice{Place::kEpochStart, "epoch_start"},
                                               Choice{Place::kBatch, "batch"},
                                               Choice{Place::kStopped, "stopped"},
                                               Choice{Place::kBatchEnd, "batch_end"},
                                               Choice{Place::kValidation, "validation"},
                                               Choice{Place::kValidationEnd, "validation_end"},
                                               Choice{Place::kEpochEnd, "epoch_end"},
                                               Choice{Place::kEpochDone, "epoch_done"}};

/// One iteration of an epoch: a batch on every rank that still has one.
struct Iteration {
  std::int64_t index = 0;
  bool starts_window = true;  ///< gradients start at zero
  bool ends_window = true;    ///< the optimizer steps
  bool is_last = false;       ///< no rank has another batch in this epoch
  bool end_epoch = false;     ///< a rank asked to skip the rest of the epoch
  bool validates = false;     ///< a rank asked for a validation after it
  // Ranks stop with it, inside of an epoch. What they only do for that is a part of Place::kStopped.
  bool row_is_left = false;
  bool validation_is_left = false;
};

/// The counters of training that a source of data may look at while it reads.
struct ReadingCounters {
  std::int64_t global_step = 0;
  std::int64_t total_batch_idx = 0;
  std::int64_t batch_idx = 0;
};

/// As it was before the batch was read that lies ready: a run that resumes reads it again.
struct BeforeReading {
  RandomSnapshot random;
  ReadingCounters counters;
};

/// What changes while a place that begins anew is under way, as it was at its beginning.
struct PlaceStart {
  RandomSnapshot random = RandomSnapshot::take();
  std::optional<BeforeReading> before_reading;
  std::vector<RowCounts> rows;                 ///< by logger
  std::vector<std::int64_t> evaluation_steps;  ///< of validation, by loader
  std::optional<MetricMaps> maps;              ///< only where a place shows new epoch values
  std::optional<MetricSnapshot> metrics;       ///< only where what was recorded is forgotten in a place
  bool skip_epoch_wish = false;
  bool validate_wish = false;
  std::shared_ptr<const ParameterSet> parameters;
  std::shared_ptr<const ParameterSet> agreed_parameters;  ///< what the strategy works with
  std::shared_ptr<const ModuleModes> modes;
  std::shared_ptr<const OptimizersAtStart> optimizers;  ///< null: as they are
};

/// Where training is. Written by the loops, read by checkpoints.
struct LoopPosition {
  Place place = Place::kTrainStart;
  std::int64_t epochs_done = 0;
  std::int64_t batches_done = 0;             ///< iterations of the epoch under way
  std::optional<std::int64_t> samples_done;  ///< of its global order; unset when the loader cannot tell
  Iteration iteration;                       ///< the last one, from kBatchEnd on and where it stopped
  bool completed = true;                     ///< the epoch came to its last batch
  int hooks_done = 0;  ///< from kBatchEnd on: callbacks, the module among them, that had their turn in this place
  std::optional<BeforeReading> before_reading;  ///< the batch that lies ready
  PlaceStart start;
  // As they were when hooks ran that a run which resumes runs again, before it has come to where it goes on.
  std::shared_ptr<const ParameterSet> parameters_at_train_start;
  std::shared_ptr<const ParameterSet> parameters_at_epoch_start;

  /// Nothing of an epoch is left to train: a wish to skip has had its effect.
  bool is_between_epochs() const { return place <= Place::kEpochStart || place == Place::kEpochDone; }
  /// A wish to stop has had its effect.
  bool has_stopped() const { return is_between_epochs() || place == Place::kStopped; }
  bool begins_anew() const { return place <= Place::kStopped || place == Place::kValidation; }
};

}  // namespace levin
