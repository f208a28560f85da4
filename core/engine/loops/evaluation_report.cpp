#include "levin/core/engine/loops/evaluation_report.h"

#include <set>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/table.h"

namespace levin {

std::string evaluation_report(Stage stage, const std::vector<MetricMap>& results) {
  TextTable table;
  table.header = {std::string(stage_name(stage)) + " metric"};
  table.align = {Align::kLeft};
  for (std::size_t loader = 0; loader < results.size(); ++loader) {
    table.header.push_back(results.size() == 1 ? "value" : format("loader {}", loader));
    table.align.push_back(Align::kRight);
  }
  std::set<std::string> names;
  for (const MetricMap& metrics : results) {
    for (const auto& [name, value] : metrics) names.insert(name);
  }
  if (names.empty()) return std::string(stage_name(stage)) + ": nothing was logged.";
  for (const std::string& name : names) {
    std::vector<std::string> row{name};
    for (const MetricMap& metrics : results) {
      const auto found = metrics.find(name);
      row.push_back(found == metrics.end() ? "" : float_text(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table.str();
}

}  // namespace levin
