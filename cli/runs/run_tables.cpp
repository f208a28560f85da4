#include "levin/cli/runs/run_tables.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/report/settings_table.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/csv_text.h"

namespace levin::cli {
namespace {

using Cells = std::vector<std::string>;

std::string number_text(double number) { return std::isnan(number) ? "NaN" : format("{:.6g}", number); }

const MetricSummary* find_metric(const RunRecord& run, const std::string& name) {
  const auto metric = run.summary.metrics.find(name);
  return metric == run.summary.metrics.end() ? nullptr : &metric->second;
}

/// The configurations of runs, a row for each option.
Value::List settings_of(const std::vector<RunRecord>& runs, bool only_differing) {
  std::vector<const Value*> configs;
  for (const RunRecord& run : runs) configs.push_back(&run.config);
  return settings_table(configs, only_differing).as_list();
}

Cells cells_of(const Value& setting) {
  Cells cells;
  for (const Value& value : setting.at("values").as_list()) cells.push_back(value.is_null() ? "" : value.as_string());
  return cells;
}

/// The folders of two runs always differ.
bool is_place(const std::string& key) { return key == "trainer.default_root_dir"; }

}  // namespace

std::vector<std::string> metric_names(const std::vector<RunRecord>& runs) {
  std::set<std::string> names;
  for (const RunRecord& run : runs) {
    for (const auto& [name, metric] : run.summary.metrics) names.insert(name);
  }
  return {names.begin(), names.end()};
}

std::vector<RunRecord> ranked_by(const std::vector<RunRecord>& runs, const std::string& metric, bool maximize) {
  std::vector<RunRecord> ranked;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(ranked),
               [&](const RunRecord& run) { return find_metric(run, metric) != nullptr; });
  const auto best = [&](const RunRecord& run) { return find_metric(run, metric)->best(maximize); };
  std::stable_sort(ranked.begin(), ranked.end(), [&](const RunRecord& one, const RunRecord& other) {
    return maximize ? best(one) > best(other) : best(one) < best(other);
  });
  return ranked;
}

std::string chosen_metric(const std::vector<RunRecord>& runs, const std::string& metric) {
  const Cells names = metric_names(runs);
  if (!metric.empty() || names.empty()) return metric;
  return is_among(names, "val_loss") ? "val_loss" : names.front();
}

std::string list_table(const std::vector<RunRecord>& runs, const std::string& metric, std::optional<bool> maximize) {
  const std::string shown = chosen_metric(runs, metric);
  TextTable table{.header = {"run", "status", "started", "time", "epochs"}, .rows = {}, .align = {}};
  if (!shown.empty()) table.header.push_back("last " + shown);
  if (!shown.empty() && maximize) table.header.push_back("best " + shown);
  table.header.emplace_back("tags");
  for (const RunRecord& run : runs) {
    Cells row = {run.name, run.status, run.started, run.seconds > 0 ? duration_text(run.seconds) : "",
                 std::to_string(run.summary.epochs)};
    const MetricSummary* const value = find_metric(run, shown);
    if (!shown.empty()) row.push_back(value == nullptr ? "" : number_text(value->last));
    if (!shown.empty() && maximize) row.push_back(value == nullptr ? "" : number_text(value->best(*maximize)));
    row.push_back(join(run.tags));
    table.rows.push_back(std::move(row));
  }
  return table.str() + "\n";
}

std::string comparison_table(const std::vector<RunRecord>& runs) {
  TextTable table;
  table.header = {""};
  for (const RunRecord& run : runs) table.header.push_back(run.name);
  const auto add_row = [&](const std::string& title, const auto& text_of) {
    table.rows.push_back({title});
    for (const RunRecord& run : runs) table.rows.back().push_back(text_of(run));
  };
  for (const Value& setting : settings_of(runs, /*only_differing=*/true)) {
    const std::string& key = setting.at("key").as_string();
    if (is_place(key)) continue;
    Cells row = cells_of(setting);
    row.insert(row.begin(), key);
    table.rows.push_back(std::move(row));
  }
  add_row("status", [](const RunRecord& run) { return run.status; });
  add_row("epochs", [](const RunRecord& run) { return std::to_string(run.summary.epochs); });
  for (const std::string& name : metric_names(runs)) {
    const auto text_of = [&](const auto& number_of) {
      return [&, number_of](const RunRecord& run) {
        const MetricSummary* const metric = find_metric(run, name);
        return metric == nullptr ? "" : number_text(number_of(*metric));
      };
    };
    add_row("last " + name, text_of([](const MetricSummary& metric) { return metric.last; }));
    add_row("lowest " + name, text_of([](const MetricSummary& metric) { return metric.min; }));
    add_row("highest " + name, text_of([](const MetricSummary& metric) { return metric.max; }));
  }
  return table.str() + "\n";
}

std::string runs_csv(const std::vector<RunRecord>& runs) {
  const Cells metrics = metric_names(runs);
  const Value::List settings = settings_of(runs, /*only_differing=*/false);
  std::vector<Cells> columns;
  for (const Value& setting : settings) columns.push_back(cells_of(setting));
  Cells header = {"run", "path", "status", "started", "seconds", "epochs", "tags"};
  for (const std::string& name : metrics) header.insert(header.end(), {name, name + ".min", name + ".max"});
  for (const Value& setting : settings) header.push_back("config." + setting.at("key").as_string());
  std::string text = csv_line(header);
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const RunRecord& run = runs[index];
    Cells row = {run.name,      run.path, run.status, run.started, number_text(run.seconds), std::to_string(run.summary.epochs),
                 join(run.tags)};
    for (const std::string& name : metrics) {
      const MetricSummary* const metric = find_metric(run, name);
      if (metric == nullptr) row.insert(row.end(), {"", "", ""});
      if (metric != nullptr)
        row.insert(row.end(), {float_text(metric->last), float_text(metric->min), float_text(metric->max)});
    }
    for (const Cells& column : columns) row.push_back(column[index]);
    text += csv_line(row);
  }
  return text;
}

}  // namespace levin::cli
