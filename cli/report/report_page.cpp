#include "levin/cli/report/report_page.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/embedded_file.h"
#include "levin/cli/report/curves_json.h"
#include "levin/cli/report/profile_tables.h"
#include "levin/cli/report/rank_departures.h"
#include "levin/cli/report/run_media.h"
#include "levin/cli/report/run_metrics.h"
#include "levin/cli/report/settings_table.h"
#include "levin/cli/report/sweep_values.h"
#include "levin/cli/runs/metric_direction.h"
#include "levin/core/base/format.h"
#include "levin/core/config/value_json.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// What stands below cli/report/page.
constexpr EmbeddedFile kPageFiles[] = {
#include "report_page.inc"
};

/// JSON that may stand within <script>: outside of strings it has no '<', and in strings nothing may look like the element's
/// end.
std::string for_script(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) c == '<' ? text += "\\u003c" : text += c;
  return text;
}

/// What a run was, as far as its files show: "fit", or "test" or "validate" of one that only evaluated.
std::string kind_of(const RunFolder& run, const RunMetrics& metrics) {
  if (!run.checkpoints.empty() || metrics.by_name.empty()) return "fit";
  const auto all = [&](const auto& is_so) {
    return std::ranges::all_of(metrics.by_name, [&](const auto& entry) { return is_so(entry.first, entry.second); });
  };
  if (!all([](const std::string&, const RunMetric& metric) { return metric.curve.size() <= 1; })) return "fit";
  if (all([](const std::string& name, const RunMetric&) { return name.starts_with("test"); })) return "test";
  return all([](const std::string& name, const RunMetric&) { return name.starts_with("val"); }) ? "validate" : "fit";
}

/// When a file of the run was written last, in local time: "2026-11-26 14:02:47"; "" where that is not known.
std::string last_sign(const fs::path& run) {
  std::optional<fs::file_time_type> newest;
  const auto visit_files_of = [&](const fs::path& folder) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code gone;
      // Files that users write there later, such as tags or a report, are not signs of the run.
      const std::string name = entry->path().filename();
      const fs::file_time_type time = entry->last_write_time(gone);
      if (gone || !entry->is_regular_file(gone) || name == "tags.json" || name == "report.html") continue;
      newest = std::max(newest.value_or(time), time);
    }
  };
  visit_files_of(run);
  visit_files_of(run / "checkpoints");
  if (!newest) return "";
  const std::time_t time = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::file_clock::to_sys(*newest)));
  std::tm parts{};
  localtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

/// The last and the best value of each metric: {"loss": {"last": 0.5, "best": 0.25, "mode": "min"}}, without the last two where
/// it is unknown which values are better.
Value last_and_best(const RunFolder& run, const RunMetrics& metrics) {
  Value values(Value::Map{});
  for (const auto& [name, metric] : metrics.by_name) {
    const std::vector<CurvePoint> points = metric.curve.points();
    if (points.empty()) continue;
    const auto number = [](double value) { return std::isfinite(value) ? Value(value) : Value(); };
    Value::Map entry = {{"last", number(points.back().last)}};
    if (const auto is_larger_better = is_larger_better_in(run.config, name)) {
      double best = std::numeric_limits<double>::quiet_NaN();
      for (const CurvePoint& point : points) best = *is_larger_better ? std::fmax(best, point.max) : std::fmin(best, point.min);
      entry.emplace_back("best", number(best));
      entry.emplace_back("mode", *is_larger_better ? "max" : "min");
    }
    values[name] = std::move(entry);
  }
  return values;
}

Value run_value(const RunFolder& run, const RunMetrics& metrics) {
  Value::List checkpoints;
  for (const RunCheckpoint& checkpoint : run.checkpoints) {
    checkpoints.push_back(Value::Map{{"file", checkpoint.file.string()},
                                     {"monitor", checkpoint.monitor},
                                     {"score", checkpoint.monitor.empty() ? Value() : Value(checkpoint.score)}});
  }
  Value profiles = profile_tables(run.path);
  std::vector<std::string> departures = departures_in_metrics(metrics);
  if (std::string waits = departure_in_waits(profiles); !waits.empty()) departures.insert(departures.begin(), std::move(waits));
  const auto list = [](const std::vector<std::string>& texts) { return Value::List(texts.begin(), texts.end()); };
  return Value::Map{{"name", run.name},
                    {"path", run.path.string()},
                    {"kind", kind_of(run, metrics)},
                    {"status", run.is_lost ? "process gone" : run.status},
                    {"last_sign", run.is_lost || run.status == "running" ? last_sign(run.path) : ""},
                    {"started", run.started},
                    {"seconds", run.seconds},
                    {"failure", run.failure},
                    {"stop_reason", run.stop_reason},
                    {"ranks", run.ranks},
                    {"warnings", list(run.warnings)},
                    {"tags", list(run.tags)},
                    {"problems", list(metrics.problems)},
                    {"checkpoints", std::move(checkpoints)},
                    {"values", last_and_best(run, metrics)},
                    {"departures", list(departures)},
                    {"profiles", std::move(profiles)}};
}

Value table_of(const std::vector<RunFolder>& runs, Value RunFolder::*settings, bool only_differing) {
  std::vector<const Value*> values;
  values.reserve(runs.size());
  for (const RunFolder& run : runs) values.push_back(&(run.*settings));
  return settings_table(values, only_differing);
}

Value metric_values(const std::vector<RunMetrics>& metrics) {
  Value::List values;
  for (const std::string& name : metric_names(metrics))
    values.push_back(Value::Map{{"name", name}, {"section", section_of(name)}});
  return values;
}

/// The page with a text for each `{{name}}`.
std::string filled(std::string_view page, const std::map<std::string_view, std::string_view>& texts) {
  std::string text;
  while (true) {
    const std::size_t begin = page.find("{{");
    const std::size_t end = page.find("}}", begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) return text.append(page);
    text.append(page.substr(0, begin)).append(texts.at(page.substr(begin + 2, end - begin - 2)));
    page.remove_prefix(end + 2);
  }
}

}  // namespace

std::string_view section_of(std::string_view metric) {
  const auto has = [&](std::string_view part) { return metric.find(part) != std::string_view::npos; };
  if (metric.starts_with("lr-")) return "Learning rate";
  if (metric.starts_with("memory_") || has("/memory")) return "Memory";
  const bool counts_work = metric.ends_with("/time") || metric.ends_with("/batches") || metric.ends_with("/samples");
  if (metric.ends_with("_per_sec") || counts_work) return "Throughput";
  return "Metrics";
}

std::string report_page(const std::vector<RunFolder>& runs, const ReportOptions& options) {
  std::vector<RunMetrics> metrics;
  std::vector<MediaSeries> media;
  Value::List run_values;
  for (const RunFolder& run : runs) {
    metrics.push_back(read_run_metrics(run.path));
    run_values.push_back(run_value(run, metrics.back()));
    for (MediaSeries& series : find_media(run.path, run_values.size() - 1)) media.push_back(std::move(series));
  }
  // The rest is for tables and media.
  downsample_to(metrics, options.max_bytes / 5 * 3);
  const std::string curves = for_script(curves_json(metrics));

  Value report(Value::Map{{"reloads", options.reloads},
                          {"runs", std::move(run_values)},
                          {"metrics", metric_values(metrics)},
                          {"sweeps", sweep_values(runs)},
                          {"settings", table_of(runs, &RunFolder::config, /*only_differing=*/true)},
                          {"hyperparams", table_of(runs, &RunFolder::hyperparams, /*only_differing=*/false)}});
  const std::string_view page = embedded_text(kPageFiles, "report.html");
  const std::string_view style = embedded_text(kPageFiles, "report.css");
  const std::string script = format("{}{}", embedded_text(kPageFiles, "chart.js"), embedded_text(kPageFiles, "report.js"));
  const std::size_t used = page.size() + style.size() + script.size() + curves.size() + for_script(plain_json(report)).size();
  EmbeddedMedia embedded = embed_media(media, options.max_bytes > used ? options.max_bytes - used : 0);
  report["media"] = std::move(embedded.series);
  report["media_left_out"] = static_cast<std::int64_t>(embedded.left_out);
  return filled(page, {{"style", style}, {"script", script}, {"report", for_script(plain_json(report))}, {"curves", curves}});
}

}  // namespace levin::cli
