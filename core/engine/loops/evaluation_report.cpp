#include "levin/core/engine/loops/evaluation_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"

namespace levin {
namespace {

/// A number of a matrix, by its key: "confusion_2_7", "confusion_2_7/dataloader_idx_1".
struct Cell {
  std::string matrix;
  std::size_t row = 0;
  std::size_t column = 0;
};

/// Takes "_7" off the end.
std::optional<std::size_t> take_index(std::string_view& name) {
  const std::size_t begin = name.rfind('_');
  if (begin == std::string_view::npos) return std::nullopt;
  std::size_t index = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + begin + 1, end, index);
  if (error != std::errc() || stop != end) return std::nullopt;
  name = name.substr(0, begin);
  return index;
}

std::optional<Cell> cell_of(const std::string& key) {
  const std::size_t loader = std::min(key.find("/dataloader_idx_"), key.size());
  std::string_view name = std::string_view(key).substr(0, loader);
  const auto column = take_index(name);
  const auto row = column ? take_index(name) : std::nullopt;
  if (!row || name.empty()) return std::nullopt;
  return Cell{std::string(name) + key.substr(loader), *row, *column};
}

using Numbers = std::map<std::pair<std::size_t, std::size_t>, double>;

/// All rows have all columns, from 0 on, and there are several of both.
bool is_matrix(const Numbers& numbers) {
  const auto [last_row, last_column] = numbers.rbegin()->first;
  if (last_row == 0 || last_column == 0) return false;
  std::size_t place = 0;
  for (const auto& [index, value] : numbers) {
    if (index != std::pair(place / (last_column + 1), place % (last_column + 1))) return false;
    ++place;
  }
  return place == (last_row + 1) * (last_column + 1);
}

std::string matrix_text(const std::string& name, const Numbers& numbers) {
  const auto [last_row, last_column] = numbers.rbegin()->first;
  constexpr std::size_t kMostColumns = 24;
  if (last_column >= kMostColumns)
    return format("{}: {} rows of {} numbers, in the logs.", name, last_row + 1, last_column + 1);
  TextTable table{.header = {name}, .rows = {}, .align = {Align::kLeft}};
  for (std::size_t column = 0; column <= last_column; ++column) {
    table.header.push_back(std::to_string(column));
    table.align.push_back(Align::kRight);
  }
  for (std::size_t row = 0; row <= last_row; ++row) {
    std::vector<std::string>& cells = table.rows.emplace_back(std::vector<std::string>{std::to_string(row)});
    for (std::size_t column = 0; column <= last_column; ++column) {
      const double value = numbers.at({row, column});
      cells.push_back(value == std::trunc(value) ? format("{:.0f}", value) : format("{:.4g}", value));
    }
  }
  return table.str();
}

}  // namespace

std::string evaluation_report(Stage stage, const std::vector<MetricMap>& results) {
  TextTable table{.header = {std::string(stage_name(stage)) + " metric"}, .rows = {}, .align = {Align::kLeft}};
  std::set<std::string> names;
  std::map<std::string, Numbers> matrices;
  for (std::size_t loader = 0; loader < results.size(); ++loader) {
    table.header.push_back(results.size() == 1 ? "value" : format("loader {}", loader));
    table.align.push_back(Align::kRight);
    for (const auto& [name, value] : results[loader]) {
      names.insert(name);
      if (const auto cell = cell_of(name)) matrices[cell->matrix][{cell->row, cell->column}] = value;
    }
  }
  if (names.empty()) return std::string(stage_name(stage)) + ": nothing was logged.";
  std::erase_if(matrices, [](const auto& matrix) { return !is_matrix(matrix.second); });
  for (const std::string& name : names) {
    if (const auto cell = cell_of(name); cell && matrices.contains(cell->matrix)) continue;
    std::vector<std::string> row{name};
    for (const MetricMap& metrics : results) {
      const auto found = metrics.find(name);
      row.push_back(found == metrics.end() ? "" : float_text(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  std::vector<std::string> parts;
  if (!table.rows.empty()) parts.push_back(table.str());
  for (const auto& [name, numbers] : matrices) parts.push_back(matrix_text(name, numbers));
  return join(parts, "\n\n");
}

}  // namespace levin
