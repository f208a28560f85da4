#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "levin/core/files/csv_reader.h"
#include "levin/core/logger.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {

inline MetricRow row_of(std::int64_t step, MetricMap values, std::int64_t epoch = 0) {
  MetricRow row;
  row.epoch = epoch;
  row.step = step;
  row.values = std::move(values);
  return row;
}

/// True for a CSV text as every reader wants it: it ends with a whole line, and each line has as many cells as the first. The
/// cells are RFC 4180's; the line end is "\n" alone.
inline bool is_rectangular(const std::string& text) {
  std::size_t cells = 1;
  std::size_t expected = 0;
  bool quoted = false;
  for (const char character : text) {
    if (character == '"') quoted = !quoted;
    if (quoted) continue;
    if (character == '\r' || character == '\0') return false;
    if (character == ',') ++cells;
    if (character != '\n') continue;
    if (expected == 0) expected = cells;
    if (cells != expected) return false;
    cells = 1;
  }
  return !quoted && text.ends_with('\n');
}

/// A CSV file as a reader of columns (Python's csv.DictReader, pandas) sees it: missing cells are empty.
struct CsvTable {
  explicit CsvTable(const std::filesystem::path& file) {
    CsvReader reader(file);
    reader.next(header);
    std::vector<std::string> cells;
    while (reader.next(cells)) {
      if (cells.size() > header.size()) throw std::runtime_error("a row is longer than the header");
      cells.resize(header.size());
      rows.push_back(cells);
    }
  }

  /// The cells of a column; empty when there is no such column.
  std::vector<std::string> column(const std::string& name) const {
    std::vector<std::string> cells;
    for (std::size_t index = 0; index < header.size(); ++index) {
      if (header[index] != name) continue;
      for (const auto& row : rows) cells.push_back(row[index]);
    }
    return cells;
  }

  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

}  // namespace levin::test
