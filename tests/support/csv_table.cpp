#include "support/csv_table.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace levin::test {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char character : line) {
    if (character == ',') {
      cells.emplace_back();
    } else {
      cells.back() += character;
    }
  }
  return cells;
}

}  // namespace

CsvTable CsvTable::read(const std::filesystem::path& file) {
  std::ifstream input(file);
  std::string line;
  if (!std::getline(input, line)) throw std::runtime_error("cannot read " + file.string());
  CsvTable table;
  table.columns_ = split(line);
  while (std::getline(input, line)) {
    const std::vector<std::string> cells = split(line);
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
