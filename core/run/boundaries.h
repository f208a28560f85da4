#pragma once

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "levin/core/base/process.h"
#include "levin/core/logger.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/run/rank_agreement.h"
#include "levin/core/run/run_wishes.h"

namespace levin {

/// Where ranks meet: this rank's votes go with it, and what the ranks agreed on is taken over.
class Boundaries {
 public:
  /// `profiler`: may be null.
  Boundaries(const Progress& progress, const GradientAccumulation& accumulation, MetricStore& metrics, RunWishes& wishes,
             Profiler* profiler = nullptr)
      : progress_(progress), accumulation_(accumulation), metrics_(metrics), wishes_(wishes), profiler_(profiler) {}

  /// Ranks: all, for the reason that each caller gives above its call.
  BoundaryOutcome meet(BoundaryKind kind, const BoundaryPayload& payload = {}) {
    const double arrived = profiler_ == nullptr ? 0 : steady_seconds();
    // Also when the exchange ends with an error: that wait is the one to find.
    const auto tell = c10::make_scope_exit([&] {
      try {
        if (profiler_ != nullptr) profiler_->waited(WaitReason::kExchange, arrived, steady_seconds());
      } catch (...) {  // it must not throw: the run continues without it
      }
    });
    // Every rank reaches this because each caller says why, above its call.
    BoundaryOutcome outcome = metrics_.meet(progress_.boundary(kind), votes(), payload);
    adopt(outcome.rank_votes);
    return outcome;
  }
  /// The current votes of this rank.
  Votes votes() const {
    Votes votes = wishes_.votes(progress_.batch.has_next);
    votes.accumulate_grad_batches = static_cast<std::int32_t>(std::min<std::int64_t>(accumulation_.batches, 0xffff));
    return votes;
  }
  /// Takes over votes that came with the gradients of a step, merged. Throws as check_same_accumulation() does in fit().
  Votes adopt(const std::vector<Votes>& by_rank) {
    if (progress_.fitting) check_same_accumulation(by_rank);
    return wishes_.adopt(by_rank);
  }

 private:
  const Progress& progress_;
  const GradientAccumulation& accumulation_;
  MetricStore& metrics_;
  RunWishes& wishes_;
  Profiler* profiler_;
};

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
