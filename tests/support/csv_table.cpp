#include "support/csv_table.h"

#include <algorithm>
#include <stdexcept>

#include "support/file_text.h"

namespace levin::test {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char character : line) {
    if (character == ',') {
      cells.emplace_back();
    } else if (character != '\r') {
      cells.back() += character;
    }
  }
  return cells;
}

}  // namespace

CsvTable CsvTable::read(const std::filesystem::path& file, bool may_lack_cells) {
  std::vector<std::string> lines = lines_of(read_text(file));
  if (lines.empty()) throw std::runtime_error(file.string() + " is empty");
  CsvTable table;
  table.columns_ = split(lines.front());
  lines.erase(lines.begin());
  for (const std::string& line : lines) {
    std::vector<std::string> cells = split(line);
    if (may_lack_cells && cells.size() < table.columns_.size()) cells.resize(table.columns_.size());
    if (cells.size() != table.columns_.size()) {
      throw std::runtime_error(file.string() + ": row " + std::to_string(table.size() + 1) + " has " +
                               std::to_string(cells.size()) + " cells: " + line);
    }
    auto& row = table.rows_.emplace_back();
    for (std::size_t column = 0; column < cells.size(); ++column) row[table.columns_[column]] = cells[column];
  }
  return table;
}

bool CsvTable::has(const std::string& column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

const std::string& CsvTable::cell(std::size_t row, const std::string& column) const { return rows_.at(row).at(column); }

std::vector<double> CsvTable::values(const std::string& column) const {
  std::vector<double> values;
  for (const auto& row : rows_) {
    if (const std::string& text = row.at(column); !text.empty()) values.push_back(std::stod(text));
  }
  return values;
}

}  // namespace levin::test
