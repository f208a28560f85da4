#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "levin/cli/report/metric_curve.h"

namespace levin::cli {

/// Of a rank's values that are finite.
struct RankMean {
  double sum = 0;
  std::int64_t count = 0;
};

/// A metric of a run.
struct RunMetric {
  MetricCurve curve;  ///< the column of metrics.csv
  MetricCurve ranks;  ///< what ranks had each for itself, all together: min and max are those over ranks
  std::map<int, RankMean> by_rank;
};

/// The curves of a run, by the metric's name.
struct RunMetrics {
  std::map<std::string, RunMetric> by_name;
  /// The epoch over steps, from the column of that name.
  MetricCurve epochs;
  /// Files that could not be read, or not to their ends, and why.
  std::vector<std::string> problems;
};

/// Reads metrics.csv, and metrics_rank_0.csv and so on of a run's folder, each once from begin to end, whatever their sizes. A
/// column `rank_1_loss` counts as what rank 1 has for `loss`. What is not a number has no point; a last line without an end is
/// half-written, and left out. Never throws because of what is in a file.
RunMetrics read_run_metrics(const std::filesystem::path& run);

}  // namespace levin::cli
