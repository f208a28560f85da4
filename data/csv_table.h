#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/export.h"
#include "levin/data/input_file.h"

namespace levin {

struct LEVIN_API CsvOptions {
  char delimiter = ',';
  /// Whether the first line names the columns. Default: it does when none of its fields is a number; a first line with both
  /// numbers and names is an error that asks for this option.
  std::optional<bool> header{};
  /// Value of a field that is empty, NA, N/A, null or ?. Default: such a field is an error.
  std::optional<double> missing{};
  /// How many times its size a gzip file may expand to (see InputFile).
  double max_expansion = kMaxExpansion;
  /// A column that may hold texts in place of numbers, named as for find_column(). Default: none.
  std::string class_column{};
};

/// A table of numbers.
struct LEVIN_API CsvTable {
  std::vector<std::string> columns;  ///< names; empty without a header
  at::Tensor values;                 ///< float64, [rows, columns]
  /// The texts of CsvOptions::class_column, sorted; its values are their indices here. Empty when it holds numbers.
  std::vector<std::string> classes{};
  /// Rows whose line does not follow that of the row before, with their lines.
  std::vector<std::pair<std::int64_t, std::int64_t>> line_starts{};

  /// The line that a row stands on, from 1; 0 when that is not known.
  std::int64_t line_of(std::int64_t row) const;
};

/// The number of a column that is written as its name, or as its number from 0, or from the end (-1 is the last); nullopt when
/// there is none.
LEVIN_API std::optional<std::int64_t> find_column(const std::vector<std::string>& names, std::int64_t width,
                                                  const std::string& wanted);

/// Reads a CSV file of numbers (nan and inf included; what is too small for a float64 is 0, what is too large an error). Fields
/// may be in double quotes; blanks around fields and empty lines are passed over; lines end in LF or CRLF; a byte order mark is
/// allowed. Throws IoError with file:line:column and the offending text on anything that is no number, a line of another
/// length, or a class column that holds both numbers and texts.
LEVIN_API CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// The same for text that is in memory; `name` stands for the file in messages.
LEVIN_API CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options = {});

}  // namespace levin
