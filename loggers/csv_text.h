#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// Appends a cell as RFC 4180 wants it: quoted when it holds a comma, a quote or a line break.
void append_csv_text(std::string& line, std::string_view text);
/// Appends the shortest text that reads back to the same bits, and that readers which guess a column's type from its first rows
/// take for a float: "1.0", not "1"; "NaN", "inf" and "-inf", which pandas, polars, R and Python's float() all know.
void append_csv_number(std::string& line, double value);
void append_csv_number(std::string& line, std::int64_t value);

/// Reads a CSV file record by record, in constant memory. Knows quoted cells and every kind of line end, and passes over empty
/// lines. A last record without a line end is not given: whoever wrote it was stopped in the middle.
class CsvReader {
 public:
  /// Throws: IoError when the file cannot be opened.
  explicit CsvReader(const std::filesystem::path& file);

  /// Reads the next record into `cells`; false at the end. Throws: IoError when reading fails.
  bool next(std::vector<std::string>& cells);

 private:
  std::filesystem::path file_;
  std::ifstream stream_;
};

}  // namespace levin
