#include "levin/core/run/boundaries.h"

#include <algorithm>

namespace levin {

std::vector<RowCounts> rows_written(const LoggerList& loggers) {
  std::vector<RowCounts> rows;
  for (const auto& logger : loggers) rows.push_back(logger->rows_written());
  return rows;
}

void MetricRows::write(const BoundaryOutcome& outcome, std::int64_t step, bool epoch_end) {
  if (outcome.logger_row.empty()) return;
  const MetricRow reduced = row(outcome.logger_row, step, epoch_end);
  hooks_.callbacks(Hook::kOnRankMetrics, &Callback::on_rank_metrics, reduced, outcome.rank_rows);
  if (loggers_.empty()) return;
  const auto scope = hooks_.enter(Hook::kLogMetrics);
  if (is_global_zero_) {
    for (const auto& logger : loggers_) {
      logger->log_metrics(reduced);
      if (logger->wants_all_ranks()) logger->log_all_ranks(reduced, outcome.rank_rows);
    }
  }
  if (!epoch_end || outcome.local_row.empty()) return;
  const MetricRow local = row(outcome.local_row, step, epoch_end);
  for (const auto& logger : loggers_) {
    if (logger->wants_rank_metrics()) logger->log_rank_metrics(local);
  }
}

void MetricRows::write_local_step(const MetricStore& metrics, std::int64_t step, std::optional<std::int64_t> evaluation_batch) {
  const bool to_main = evaluation_batch && is_global_zero_;
  const auto wants_rank = [](const auto& logger) { return logger->wants_rank_metrics(); };
  const bool anybody = to_main ? !loggers_.empty() : std::ranges::any_of(loggers_, wants_rank);
  if (!anybody) return;
  MetricMap values = metrics.local_step_row();
  if (values.empty()) return;
  const auto scope = hooks_.enter(Hook::kLogMetrics);
  MetricRow local = row(std::move(values), step, false);
  local.evaluation_batch = evaluation_batch;
  for (const auto& logger : loggers_) {
    if (to_main) logger->log_metrics(local);
    if (wants_rank(logger)) logger->log_rank_metrics(local);
  }
}

void save_rows(const LoggerList& loggers, HookRunner& hooks) {
  const auto scope = hooks.enter(Hook::kLogMetrics);
  for (const auto& logger : loggers) logger->save();
}

}  // namespace levin
