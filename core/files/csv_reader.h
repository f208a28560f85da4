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

/// Reads a CSV file of a run from its begin to its end, in one pass and with little memory: such files may have a million rows.
/// For files of users, whose every field is checked, there is data/csv_rows.h.
///
/// Lines end in LF or CRLF, or in all of the file in CR. Empty lines are passed over. A last line without an end is being
/// written, or was when its writer was killed: it is left out.
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
  /// Nothing at the end. Throws IoError.
  std::optional<std::string_view> next_line();

 private:
  /// The next line, whatever is in it, up to its last character.
  std::optional<std::string_view> next_raw_line();
  /// Reads on; false at the end of the file.
  bool fill();

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::string buffer_;
  std::size_t begin_ = 0;  ///< of what is not given out yet
  std::size_t end_ = 0;    ///< of what is read
  char line_end_ = 0;      ///< none before the first bytes are read
};

/// The number that a text begins with ("-1.5e3", "nan", "inf"), as exact as a curve on a screen needs it: a relative error of
/// 1e-14. Gives where it ends: at `end` or before a comma; null where there is no such number.
const char* parse_number(const char* begin, const char* end, double& number);

/// The comma after a cell that begins here, or `end`. Commas in quotes are passed over.
const char* end_of_cell(const char* begin, const char* end);

}  // namespace levin
