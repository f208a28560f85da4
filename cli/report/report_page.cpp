#include "levin/cli/report/report_page.h"

#include <algorithm>
#include <map>
#include <utility>

#include "levin/cli/embedded_file.h"
#include "levin/cli/report/curves_json.h"
#include "levin/cli/report/profile_tables.h"
#include "levin/cli/report/run_media.h"
#include "levin/cli/report/run_metrics.h"
#include "levin/cli/report/settings_table.h"
#include "levin/core/base/format.h"
#include "levin/core/options/value_json.h"

namespace levin::cli {
namespace {

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

Value run_value(const RunFolder& run, const RunMetrics& metrics) {
  Value::List checkpoints;
  for (const RunCheckpoint& checkpoint : run.checkpoints) {
    checkpoints.push_back(Value::Map{{"file", checkpoint.file.string()},
                                     {"monitor", checkpoint.monitor},
                                     {"score", checkpoint.monitor.empty() ? Value() : Value(checkpoint.score)}});
  }
  const auto list = [](const std::vector<std::string>& texts) { return Value::List(texts.begin(), texts.end()); };
  return Value::Map{{"name", run.name},
                    {"path", run.path.string()},
                    {"status", run.status},
                    {"started", run.started},
                    {"seconds", run.seconds},
                    {"failure", run.failure},
                    {"stop_reason", run.stop_reason},
                    {"ranks", run.ranks},
                    {"warnings", list(run.warnings)},
                    {"tags", list(run.tags)},
                    {"problems", list(metrics.problems)},
                    {"checkpoints", std::move(checkpoints)},
                    {"profiles", profile_tables(run.path)}};
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

/// The page with a text in the place of each `{{name}}`.
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
  thin_to(metrics, options.max_bytes / 5 * 3);
  const std::string curves = for_script(curves_json(metrics));

  Value report(Value::Map{{"reloads", options.reloads},
                          {"runs", std::move(run_values)},
                          {"metrics", metric_values(metrics)},
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
