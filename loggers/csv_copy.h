#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/files/atomic_file.h"

namespace levin {

/// The rows of a new CSV file, from the first byte to the last.
class CsvWriter {
 public:
  explicit CsvWriter(AtomicFile& file) : file_(file) {}

  /// Adds a line with its line end. Throws: IoError.
  void add(std::string_view line);
  /// Writes what is left, so that a row of `next` bytes can be appended in one page (PagedText). Throws: IoError.
  void finish(std::size_t next);
  /// Bytes of the file, after finish().
  std::int64_t size() const { return written_; }

 private:
  void write(std::size_t bytes);

  AtomicFile& file_;
  std::string text_;
  std::size_t last_line_ = 0;  ///< where it begins in text_
  std::int64_t written_ = 0;
};

/// The header line of a file with these columns.
std::string csv_header(const std::vector<std::string>& columns);

/// Adds to `target` the rows of `source` that `keep` accepts, with a cell for each of `columns`: empty where the source has
/// none. `keep` sees the row's cell in the column `keep_column` ("" when it has none). Throws: IoError.
void copy_csv_rows(const std::filesystem::path& source, CsvWriter& target, const std::vector<std::string>& columns,
                   std::string_view keep_column, const std::function<bool(const std::string& cell)>& keep);

}  // namespace levin
