#include "levin/cli/runs/metric_summary.h"

#include <algorithm>
#include <vector>

#include "levin/cli/report/metric_curve.h"
#include "levin/cli/report/run_metrics.h"

namespace levin::cli {

RunSummary summarize_metrics(const std::filesystem::path& run) {
  const RunMetrics metrics = read_run_metrics(run);
  RunSummary summary;
  for (const CurvePoint& point : metrics.epochs.points())
    summary.epochs = std::max(summary.epochs, static_cast<std::int64_t>(point.max) + 1);
  for (const auto& [name, metric] : metrics.by_name) {
    std::vector<CurvePoint> points = metric.curve.points();
    const auto last = points.empty() ? 0 : points.back().last;
    std::erase_if(points, [](const CurvePoint& point) { return point.count == 0; });
    if (points.empty()) continue;
    MetricSummary& of_metric = summary.metrics[name];
    of_metric.last = last;
    of_metric.min = std::ranges::min(points, {}, &CurvePoint::min).min;
    of_metric.max = std::ranges::max(points, {}, &CurvePoint::max).max;
  }
  return summary;
}

}  // namespace levin::cli
