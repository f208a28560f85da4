#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace levin::cli {

/// The values of a metric in a run. All are finite, but for `last` of a run that went wrong at its end, which may be NaN.
struct MetricSummary {
  double last = 0;
  double min = 0;
  double max = 0;

  double best(bool maximize) const { return maximize ? max : min; }
};

/// The values of the metrics of a run.
struct RunSummary {
  std::map<std::string, MetricSummary> metrics;  ///< those with a finite value
  std::int64_t epochs = 0;                       ///< with a row
};

/// Reads metrics.csv of a run's folder, and ignores what cannot be read. RunFolder has the summary of run.json, if any.
RunSummary summarize_metrics(const std::filesystem::path& run);

}  // namespace levin::cli
