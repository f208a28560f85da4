#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "levin/core/engine/parts/hook_runner.h"
#include "levin/core/engine/parts/progress.h"
#include "levin/core/logger.h"
#include "levin/core/protocol/metric_store.h"

namespace levin {

using LoggerList = std::vector<std::shared_ptr<Logger>>;

/// What each logger has been given.
std::vector<RowCounts> rows_written(const LoggerList& loggers);

/// Hands what a boundary gave to the loggers: rows on rank 0, and each rank's own values where a logger
/// wants them; and to the callbacks.
class MetricRows {
 public:
  MetricRows(const LoggerList& loggers, bool is_global_zero, const Progress& progress, HookRunner& hooks)
      : loggers_(loggers), is_global_zero_(is_global_zero), progress_(progress), hooks_(hooks) {}

  /// The outcome of a training-step or epoch boundary.
  void write(const BoundaryOutcome& outcome, std::int64_t step, bool epoch_end);
  /// This rank's step values as they are now; no boundary is involved. `evaluation_batch`: they are those of an evaluation
  /// batch of this number, which rank 0's loggers get as a row too.
  void write_local_step(const MetricStore& metrics, std::int64_t step,
                        std::optional<std::int64_t> evaluation_batch = std::nullopt);
  void save();

 private:
  MetricRow row(MetricMap values, std::int64_t step, bool epoch_end) const;

  const LoggerList& loggers_;
  bool is_global_zero_;
  const Progress& progress_;
  HookRunner& hooks_;
};

}  // namespace levin
