#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "levin/core/engine/parts/hook_runner.h"
#include "levin/core/logger.h"

namespace levin {

using LoggerList = std::vector<std::shared_ptr<Logger>>;

/// What each logger has been given.
std::vector<RowCounts> rows_written(const LoggerList& loggers);

/// Has loggers bring their rows to the disk.
void save_rows(const LoggerList& loggers, HookRunner& hooks);

/// Hands what a boundary gave to callbacks and to loggers: rows on rank 0, each rank's own values where a logger wants them.
class MetricRows {
 public:
  MetricRows(const LoggerList& loggers, bool is_global_zero, const Progress& progress, HookRunner& hooks)
      : loggers_(loggers), is_global_zero_(is_global_zero), progress_(progress), hooks_(hooks) {}

  /// The outcome of a training-step or epoch boundary.
  void write(const BoundaryOutcome& outcome, std::int64_t step, bool epoch_end);
  /// This rank's step values as they are now, without a boundary. `evaluation_batch`: they are of that evaluation batch, and a
  /// row of rank 0's loggers too.
  void write_local_step(const MetricStore& metrics, std::int64_t step,
                        std::optional<std::int64_t> evaluation_batch = std::nullopt);

 private:
  MetricRow row(MetricMap values, std::int64_t step, bool epoch_end) const {
    return {progress_.stage, progress_.epoch, step, epoch_end, std::move(values)};
  }

  const LoggerList& loggers_;
  bool is_global_zero_;
  const Progress& progress_;
  HookRunner& hooks_;
};

}  // namespace levin
