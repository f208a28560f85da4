#include "levin/cli/sweep/sweep_results.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "levin/cli/config/class_catalog.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/csv_text.h"

namespace levin::cli {
namespace {

using Cells = std::vector<std::string>;

/// The keys of the configuration that trials set.
Cells keys_of(const SweepState& sweep) {
  Cells keys;
  for (const Trial& trial : sweep.trials) {
    for (const auto& [key, text] : trial.values) {
      if (!is_among(keys, key)) keys.push_back(key);
    }
  }
  return keys;
}

std::string text_under(const Assignment& values, const std::string& key) {
  const auto value = std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == key; });
  return value == values.end() ? "" : value->second;
}

bool has_rungs(const SweepState& sweep) { return sweep.rungs.size() > 1; }

Cells header_of(const SweepState& sweep) {
  Cells header = {"trial"};
  const Cells keys = keys_of(sweep);
  header.insert(header.end(), keys.begin(), keys.end());
  if (!sweep.monitor.empty()) header.push_back(sweep.monitor);
  if (has_rungs(sweep)) header.emplace_back("epochs");
  header.insert(header.end(), {"status", "seconds"});
  return header;
}

Cells row_of(const SweepState& sweep, const Trial& trial, const Cells& keys) {
  Cells row = {trial.name()};
  for (const std::string& key : keys) row.push_back(text_under(trial.values, key));
  if (!sweep.monitor.empty()) row.push_back(trial.score() ? format("{:.6g}", *trial.score()) : "");
  if (has_rungs(sweep)) {
    const std::int64_t epochs = trial.scores.empty() ? 0 : sweep.rungs[std::min(trial.scores.size(), sweep.rungs.size()) - 1];
    row.push_back(std::to_string(epochs));
  }
  row.insert(row.end(), {trial.status, format("{:.1f}", trial.seconds)});
  return row;
}

}  // namespace

std::string results_table(const SweepState& sweep) {
  TextTable table{.header = header_of(sweep), .rows = {}, .align = {}};
  const Cells keys = keys_of(sweep);
  for (const std::size_t index : sweep.ranking()) table.rows.push_back(row_of(sweep, sweep.trials[index], keys));
  return table.str() + "\n";
}

std::string results_csv(const SweepState& sweep) {
  std::string text = csv_line(header_of(sweep));
  const Cells keys = keys_of(sweep);
  for (const std::size_t index : sweep.ranking()) text += csv_line(row_of(sweep, sweep.trials[index], keys));
  return text;
}

}  // namespace levin::cli
