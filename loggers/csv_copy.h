#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "levin/loggers/output_file.h"

namespace levin {

/// What a CSV file of metrics looks like.
struct CsvLayout {
  std::vector<std::string> columns;
  bool rectangular = false;  ///< every row has a cell for every column; otherwise a row may end early
  bool room = false;         ///< the header line ends in carriage returns, into which more columns can be written
};

/// The names parted by commas, from the `first` on, with the comma before it.
std::string csv_header_text(const std::vector<std::string>& columns, std::size_t first = 0);
/// The header line with its room and line end.
std::string csv_header_line(const CsvLayout& layout);
/// Appends a row with its line end.
void append_csv_row(std::string& text, const std::vector<std::string>& cells);

/// Writes the rows of `source` that `keep` accepts to `target` in another layout, and waits until they are on the disk. `keep`
/// sees the row's cell in the column `keep_column` ("" when it has none). Throws: IoError; `target` may then be incomplete.
void copy_csv(const std::filesystem::path& source, OutputFile& target, const CsvLayout& layout, std::string_view keep_column,
              const std::function<bool(const std::string& cell)>& keep);

}  // namespace levin
