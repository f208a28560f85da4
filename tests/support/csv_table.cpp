#include "support/csv_table.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "support/file_text.h"

namespace levin::test {
namespace {

std::vector<CsvTable::Cells> lines_of_cells(const std::string& text) {
  std::vector<CsvTable::Cells> lines;
  CsvTable::Cells line(1);
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"') {
      if (!quoted && at > 0 && text[at - 1] == '"') line.back() += letter;  // "" in quotes is one quote
      quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      line.emplace_back();
    } else if (letter == '\n' && !quoted) {
      lines.push_back(std::exchange(line, CsvTable::Cells(1)));
    } else if (letter != '\r' || quoted) {
      line.back() += letter;
    }
  }
  return lines;
}

}  // namespace

CsvTable CsvTable::read(const std::filesystem::path& file, bool may_lack_cells) {
  CsvTable table;
  table.rows_ = lines_of_cells(read_text(file));
  if (table.rows_.empty()) throw std::runtime_error(file.string() + " has no line");
  table.columns_ = std::move(table.rows_.front());
  table.rows_.erase(table.rows_.begin());
  for (std::size_t row = 0; row < table.size(); ++row) {
    Cells& cells = table.rows_[row];
    if (may_lack_cells && cells.size() < table.columns_.size()) cells.resize(table.columns_.size());
    if (cells.size() != table.columns_.size()) {
      throw std::runtime_error(file.string() + ": row " + std::to_string(row + 1) + " has " + std::to_string(cells.size()) +
                               " cells");
    }
  }
  return table;
}

bool CsvTable::has(const std::string& column) const { return std::ranges::find(columns_, column) != columns_.end(); }

std::size_t CsvTable::index_of(const std::string& column) const {
  const auto found = std::ranges::find(columns_, column);
  if (found == columns_.end()) throw std::out_of_range("no column " + column);
  return static_cast<std::size_t>(found - columns_.begin());
}

const std::string& CsvTable::cell(std::size_t row, const std::string& column) const { return rows_.at(row)[index_of(column)]; }

std::vector<double> CsvTable::values(const std::string& column) const {
  std::vector<double> values;
  for (const Cells& row : rows_) {
    if (const std::string& text = row[index_of(column)]; !text.empty()) values.push_back(std::stod(text));
  }
  return values;
}

}  // namespace levin::test
