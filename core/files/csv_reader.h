#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/files/descriptor.h"
#include "levin/core/files/file_bytes.h"

namespace levin {

/// Reads a CSV file of a run in one pass and with little memory: such files may have a million rows. For files of users,
/// data/csv_rows.h checks every field.
///
/// Lines end in LF or CRLF, or all in CR. Empty lines are skipped. A last line without an end is being written, or was when its
/// writer was killed: it is skipped, too.
class CsvReader {
 public:
  /// The longest line that is read, in bytes.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

  /// Throws IoError when it cannot be opened, or is not a regular file.
  explicit CsvReader(const std::filesystem::path& file, Links links = Links::kFollowed);

  /// Reads the cells of the next record, in which quotes may enclose commas, quotes and line breaks; false at the end, without
  /// cells. Throws IoError.
  bool next(std::vector<std::string>& cells);
  /// The next line that is not empty, without its end, of a file whose cells have no line breaks; valid until the next call.
  /// Unset at the end. Throws IoError.
  std::optional<std::string_view> next_line();

 private:
  /// The next line, whatever is in it, up to its last character.
  std::optional<std::string_view> next_raw_line();
  /// Reads more; false at the end of the file.
  bool fill();

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::string buffer_;
  std::size_t begin_ = 0;  ///< of unread bytes
  std::size_t end_ = 0;    ///< of bytes in memory
  char line_end_ = 0;      ///< none before the first bytes are read
};

/// The number that a text begins with ("-1.5e3", "nan", "inf"), as exact as a curve on a screen needs it: a relative error of
/// 1e-14. Returns its end: `end` or a comma; null where there is no such number.
const char* parse_number(const char* begin, const char* end, double& number);

/// The comma after a cell that begins here, or `end`. Commas in quotes do not count.
const char* end_of_cell(const char* begin, const char* end);

}  // namespace levin
