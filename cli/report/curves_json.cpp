#include "levin/cli/report/curves_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "levin/core/base/format.h"

namespace levin::cli {
namespace {

/// What a number takes in JSON, with its comma: an upper bound of the mean.
constexpr std::size_t kNumberBytes = 8;

void append_number(std::string& text, double value) {
  constexpr int kDigits = 5;
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::general, kDigits);
  text.append(digits.begin(), end);
}

/// `,"name":[…]` with what `value_of` gives of each point.
template <class ValueOf>
void append_list(std::string& text, std::string_view name, const std::vector<CurvePoint>& points, ValueOf value_of) {
  text.append(",\"").append(name).append("\":[");
  for (const CurvePoint& point : points) {
    append_number(text, value_of(point));
    text += ',';
  }
  text.back() = ']';
}

void append_steps(std::string& text, std::string_view name, const std::vector<CurvePoint>& points) {
  text.append(",\"").append(name).append("\":[");
  std::int64_t before = 0;
  for (const CurvePoint& point : points) {
    text += std::to_string(point.step - before);
    text += ',';
    before = point.step;
  }
  text.back() = ']';
}

void append_band(std::string& text, std::string_view least, std::string_view largest, const std::vector<CurvePoint>& points) {
  append_list(text, least, points, [](const CurvePoint& point) { return point.min; });
  append_list(text, largest, points, [](const CurvePoint& point) { return point.max; });
}

bool has_band(const std::vector<CurvePoint>& points) {
  return std::any_of(points.begin(), points.end(), [](const CurvePoint& point) { return point.min < point.max; });
}

/// Appends a map and a comma.
void append_metric(std::string& text, std::ptrdiff_t metric, std::size_t run, const MetricCurve& curve,
                   const MetricCurve& ranks) {
  const std::vector<CurvePoint> points = curve.points();
  const std::vector<CurvePoint> rank_points = ranks.points();
  if (points.empty() && rank_points.empty()) return;
  text += format("{{\"m\":{},\"r\":{}", metric, run);
  if (!points.empty()) {
    append_steps(text, "x", points);
    append_list(text, "y", points, [](const CurvePoint& point) { return point.last; });
    if (rank_points.empty() && has_band(points)) append_band(text, "l", "h", points);
  }
  if (!rank_points.empty()) {
    append_steps(text, "rx", rank_points);
    if (points.empty()) append_list(text, "ry", rank_points, [](const CurvePoint& point) { return point.mean(); });
    append_band(text, "rl", "rh", rank_points);
  }
  text += "},\n";
}

template <class Action>
void for_each_curve(std::vector<RunMetrics>& runs, Action action) {
  for (RunMetrics& run : runs) {
    action(run.epochs);
    for (auto& [name, metric] : run.by_name) {
      action(metric.curve);
      action(metric.ranks);
    }
  }
}

}  // namespace

std::vector<std::string> metric_names(const std::vector<RunMetrics>& runs) {
  std::set<std::string> names;
  for (const RunMetrics& run : runs) {
    for (const auto& [name, metric] : run.by_name) names.insert(name);
  }
  return {names.begin(), names.end()};
}

void downsample_to(std::vector<RunMetrics>& runs, std::size_t bytes) {
  constexpr std::size_t kShortest = 8;
  std::size_t longest = MetricCurve::kLongest;
  const auto size = [&] {
    std::size_t points = 0;
    for_each_curve(runs, [&](const MetricCurve& curve) { points += std::min(curve.size(), longest); });
    return 4 * points * kNumberBytes;
  };
  while (longest > kShortest && size() > bytes) longest = longest * 3 / 4;
  for_each_curve(runs, [&](MetricCurve& curve) { curve.downsample(longest); });
}

std::string curves_json(const std::vector<RunMetrics>& runs) {
  const std::vector<std::string> names = metric_names(runs);
  std::string text = "[";
  for (std::size_t run = 0; run < runs.size(); ++run) {
    append_metric(text, -1, run, runs[run].epochs, {});
    for (std::size_t name = 0; name < names.size(); ++name) {
      const auto found = runs[run].by_name.find(names[name]);
      if (found == runs[run].by_name.end()) continue;
      append_metric(text, static_cast<std::ptrdiff_t>(name), run, found->second.curve, found->second.ranks);
    }
  }
  if (text.size() > 1) text.erase(text.size() - 2);
  return text + "]";
}

}  // namespace levin::cli
