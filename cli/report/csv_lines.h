#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/files/descriptor.h"
#include "levin/core/files/file_bytes.h"

namespace levin::cli {

/// The lines of a CSV file from its begin to its end, in one pass and with little memory: files of a million rows are read so.
class CsvLines {
 public:
  /// The longest line that is read, in bytes.
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20;

  /// Throws IoError where it cannot be opened, or is no plain file.
  explicit CsvLines(const std::filesystem::path& file, Links links = Links::kFollowed);

  /// The next line that is not empty, without its end; valid until the next call. Nothing at the end of the file: a last line
  /// without an end is being written. Throws IoError.
  std::optional<std::string_view> next();
  /// The cells of the next line, in which quotes may enclose commas and line breaks; none at the end of the file. Throws
  /// IoError.
  std::vector<std::string> next_cells();

 private:
  /// Reads on; false at the end of the file.
  bool fill();

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::string buffer_;
  std::size_t begin_ = 0;  ///< of what is not given out yet
  std::size_t end_ = 0;    ///< of what is read
};

/// The number that a text begins with ("-1.5e3", "nan", "inf"), as exact as a curve on a screen needs it: a relative error of
/// 1e-14. Gives where it ends: at `end` or before a comma; null where there is no such number.
const char* parse_number(const char* begin, const char* end, double& number);

/// The comma after a cell that begins here, or `end`. Commas in quotes are passed over.
const char* end_of_cell(const char* begin, const char* end);

}  // namespace levin::cli
