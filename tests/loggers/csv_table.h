#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "levin/loggers/csv_text.h"

namespace levin::test {

/// What a file holds, byte for byte.
inline std::string content(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
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
