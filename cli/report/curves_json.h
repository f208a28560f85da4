#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "levin/cli/report/run_metrics.h"

namespace levin::cli {

/// The names of all metrics of these runs, each once, sorted.
std::vector<std::string> metric_names(const std::vector<RunMetrics>& runs);

/// Thins the curves of all runs alike, until curves_json() is not much longer than so many bytes, or there is nothing to
/// downsample.
void downsample_to(std::vector<RunMetrics>& runs, std::size_t bytes);

/// The curves as the page's script reads them: a JSON list of maps, one for each metric of each run:
/// - "m": the metric's index in metric_names(), -1 for the epoch over steps; "r": the run's index;
/// - "x": steps, the first as it is, then differences; "y": the last values at these steps, null for others than finite
///   numbers;
/// - "l", "h": the least and largest value, where a point stands for several that are not alike;
/// - "rx", "ry", "rl", "rh": the same of ranks, "ry" being the mean, and only where there is no "y".
/// Numbers have 5 significant digits.
std::string curves_json(const std::vector<RunMetrics>& runs);

}  // namespace levin::cli
