#include "levin/core/rows/metric_rows.h"

#include <algorithm>

namespace levin {

std::vector<RowCounts> rows_written(const Trainer::Runtime& runtime) {
  std::vector<RowCounts> rows;
  for (const auto& logger : runtime.loggers) rows.push_back(logger->rows_written());
  return rows;
}

MetricRow MetricRows::row(MetricMap values, std::int64_t step, bool epoch_end) const {
  return {runtime_.state.stage, runtime_.state.epoch, step, epoch_end, std::move(values)};
}

void MetricRows::write(const BoundaryOutcome& outcome, std::int64_t step, bool epoch_end) {
  if (outcome.logger_row.empty()) return;
  const MetricRow reduced = row(outcome.logger_row, step, epoch_end);
  hooks_.callbacks(Hook::kOnRankMetrics, &Callback::on_rank_metrics, reduced, outcome.rank_rows);
  if (runtime_.loggers.empty()) return;
  HookScope scope(runtime_, Hook::kLogMetrics);
  if (runtime_.is_global_zero()) {
    for (const auto& logger : runtime_.loggers) {
      logger->log_metrics(reduced);
      if (logger->wants_all_ranks()) logger->log_all_ranks(reduced, outcome.rank_rows);
    }
  }
  if (!epoch_end || outcome.local_row.empty()) return;
  const MetricRow local = row(outcome.local_row, step, epoch_end);
  for (const auto& logger : runtime_.loggers) {
    if (logger->wants_rank_metrics()) logger->log_rank_metrics(local);
  }
}

void MetricRows::write_local_step(std::int64_t step, bool to_rank_zero) {
  const bool to_main = to_rank_zero && runtime_.is_global_zero();
  const auto wants_rank = [](const auto& logger) { return logger->wants_rank_metrics(); };
  const bool anybody =
      to_main ? !runtime_.loggers.empty() : std::any_of(runtime_.loggers.begin(), runtime_.loggers.end(), wants_rank);
  if (!anybody) return;
  MetricMap values = runtime_.metrics->local_step_row();
  if (values.empty()) return;
  HookScope scope(runtime_, Hook::kLogMetrics);
  const MetricRow local = row(std::move(values), step, false);
  for (const auto& logger : runtime_.loggers) {
    if (to_main) logger->log_metrics(local);
    if (wants_rank(logger)) logger->log_rank_metrics(local);
  }
}

void MetricRows::save() {
  HookScope scope(runtime_, Hook::kLogMetrics);
  for (const auto& logger : runtime_.loggers) logger->save();
}

}  // namespace levin
