#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/options/limit.h"

namespace levin {

/// A limit that leaves any batches.
bool takes_batches(const Limit& limit);

/// Batches of a loader after its limit; nullopt when the loader does not know and no limit says. Throws ConfigError when a
/// share is asked of an unknown number, or leaves nothing.
std::optional<std::int64_t> limited_batches(std::optional<std::int64_t> loader_batches, const std::optional<Limit>& limit,
                                            const std::string& option_name);

/// After how many batches reading a loader ends that has `batches` (from limited_batches); nullopt: when it has no more. A
/// limit in batches holds for a loader of unknown length, too.
std::optional<std::int64_t> batch_cap(const std::optional<std::int64_t>& batches, const std::optional<Limit>& limit);

/// When validation runs during a training epoch of a known or unknown number of batches. Where it goes by time, only in which
/// epochs it may.
class ValidationSchedule {
 public:
  /// `interval`, `every_n_epochs`: the Trainer's val_check_interval and check_val_every_n_epoch. Throws ConfigError when the
  /// interval does not fit the epoch.
  ValidationSchedule(const std::optional<CheckInterval>& interval, std::optional<std::int64_t> every_n_epochs,
                     std::optional<std::int64_t> batches_per_epoch, bool validation_enabled);
  ValidationSchedule() = default;

  /// After batch `batch_idx` of epoch `epoch`; `total_batch_idx` counts over all epochs. All from 0.
  bool due(std::int64_t epoch, std::int64_t batch_idx, std::int64_t total_batch_idx, bool is_last_batch) const;
  /// Validation may run in this epoch at all.
  bool epoch_enabled(std::int64_t epoch) const;

 private:
  bool enabled_ = false;
  bool by_time_ = false;
  std::optional<std::int64_t> every_n_epochs_ = 1;
  std::optional<std::int64_t> every_n_batches_;  ///< unset: at the last batch
};

/// Who still has batches in a training epoch, so that all ranks go through it in step. One iteration of the epoch is one
/// micro-batch on every rank that has one; the others take part without a batch.
class EpochPlan {
 public:
  /// `rank_batches`: of each rank, -1 for unknown. `stop_with_first`: the epoch ends with the first rank that runs out, as it
  /// must when nobody but the user's code knows which reductions a step does (manual optimization).
  EpochPlan(const std::vector<std::int64_t>& rank_batches, bool stop_with_first);
  EpochPlan() = default;

  bool known() const { return known_; }
  /// Iterations of the epoch; -1 when unknown.
  std::int64_t iterations() const { return iterations_; }
  bool is_last(std::int64_t iteration) const { return known_ && iteration + 1 >= iterations_; }

 private:
  bool known_ = true;
  std::int64_t iterations_ = 0;
};

}  // namespace levin
