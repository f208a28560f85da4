#pragma once

#include "levin/core/run/hook_runner.h"

namespace levin {

/// What each logger has been given.
std::vector<RowCounts> rows_written(const Trainer::Runtime& runtime);

/// Hands what a boundary gave to the loggers: rows on rank 0, and each rank's own values where a logger
/// wants them; and to the callbacks.
class MetricRows {
 public:
  explicit MetricRows(Trainer::Runtime& runtime) : runtime_(runtime), hooks_(runtime) {}

  /// The outcome of a training-step or epoch boundary.
  void write(const BoundaryOutcome& outcome, std::int64_t step, bool epoch_end);
  /// This rank's step values as they are now; no boundary is involved. `to_rank_zero`: rank 0's loggers get them as a row too.
  void write_local_step(std::int64_t step, bool to_rank_zero);
  void save();

 private:
  MetricRow row(MetricMap values, std::int64_t step, bool epoch_end) const;

  Trainer::Runtime& runtime_;
  HookRunner hooks_;
};

}  // namespace levin
