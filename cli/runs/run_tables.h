#pragma once

#include <optional>
#include <string>
#include <vector>

#include "levin/cli/runs/run_record.h"

namespace levin::cli {

/// The names of all metrics that the runs have.
std::vector<std::string> metric_names(const std::vector<RunRecord>& runs);
/// Those of the runs that have a finite value of the metric, the best first.
std::vector<RunRecord> ranked_by(const std::vector<RunRecord>& runs, const std::string& metric, bool maximize);

/// The metric to show where none is named: val_loss where there is one, else the first; "" where there is none.
std::string chosen_metric(const std::vector<RunRecord>& runs, const std::string& metric);

/// A line for each run: its name, state, times, epochs, and the last and the best value of a metric. An empty `metric` is
/// chosen_metric(); the best value is left out where the direction is unknown.
std::string list_table(const std::vector<RunRecord>& runs, const std::string& metric, std::optional<bool> maximize);
/// The options that differ between runs, and all their metrics, a column for each run.
std::string comparison_table(const std::vector<RunRecord>& runs);
/// All runs as CSV: what the list has, each option of the configurations as `config.KEY`, and each metric's last, lowest and
/// highest value as `METRIC`, `METRIC.min` and `METRIC.max`.
std::string runs_csv(const std::vector<RunRecord>& runs);

}  // namespace levin::cli
