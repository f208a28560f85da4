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

/// A short training on the side: with the run's module, data, optimizers and strategy, and without its schedulers, callbacks,
/// loggers and validation.
struct LEVIN_API Trial {
  std::int64_t steps = 1;                                 ///< of the optimizer, after which it ends
  std::optional<std::int64_t> batch_size = std::nullopt;  ///< of the training loader, for each rank; unset: as it is
  std::shared_ptr<Callback> observer = nullptr;           ///< its only callback
};

/// What a TuningCallback tries out before a fit, and what the fit then begins with.
class LEVIN_API TrialRunner {
 public:
  TrialRunner(TrainerState& run, DataSource& source) : run_(run), source_(source) {}

  /// Trains. Afterwards, and when it throws what the training has thrown, weights, buffers, random numbers and the data
  /// module's state are as they were; so is what else a module keeps in on_save_checkpoint() and on_load_checkpoint(). The
  /// module's hooks run as in a fit, from on_train_start to on_train_end. Ranks: all.
  void run(const Trial& trial);
  /// The training loader, as this rank reads it.
  const BatchLoader& loader();

  /// Every parameter group begins the fit with this rate, and schedules that are relative to rates are so to this one; those
  /// that name their own, as OneCycleLR's max_lr, keep them. Ranks: all.
  void set_learning_rate(double lr);
  /// The training loader gives batches of this size to each rank. A run that resumes the fit does so, too. Ranks: all.
  void set_batch_size(std::int64_t samples);

 private:
  TrainerState& run_;
  DataSource& source_;
};

}  // namespace levin
