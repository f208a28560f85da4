#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "levin/core/base/fwd.h"
#include "levin/core/batch_loader.h"
#include "levin/core/callback.h"

namespace levin {

class DataSource;
struct TrainerState;

/// A short trial training with the run's module, data, optimizers and strategy, without its schedulers, callbacks, loggers and
/// validation.
struct LEVIN_API Trial {
  std::int64_t steps = 1;                                 ///< of the optimizer
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< of the training loader, for each rank; unset: unchanged
  std::shared_ptr<Callback> observer = nullptr;           ///< its only callback
};

/// Runs a TuningCallback's trials before a fit, and sets what the fit starts with.
class LEVIN_API TrialRunner {
 public:
  TrialRunner(TrainerState& run, DataSource& source) : run_(run), source_(source) {}

  /// Trains. Afterwards, and when training throws, which it rethrows, it restores weights, buffers, random numbers, the data
  /// module's state, and what the module saves in on_save_checkpoint(). The module's hooks run as in a fit, from on_train_start
  /// to on_train_end. Ranks: all.
  void run(const Trial& trial);
  /// This rank's training loader.
  const BatchLoader& loader();

  /// Every parameter group starts the fit with this rate. Schedules relative to the initial rate use it; those with their own
  /// rates, such as OneCycleLR's max_lr, do not change. Ranks: all.
  void set_learning_rate(double lr);
  /// Sets the training loader's batch size on each rank, also for runs that resume the fit. Ranks: all.
  void set_batch_size(std::int64_t samples);

 private:
  TrainerState& run_;
  DataSource& source_;
};

}  // namespace levin
