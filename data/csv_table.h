#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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
};

/// A table of numbers.
struct LEVIN_API CsvTable {
  std::vector<std::string> columns;  ///< names; empty without a header
  at::Tensor values;                 ///< float64, [rows, columns]
};

/// Reads a CSV file of numbers (nan and inf included; what is too small for a float64 is 0, what is too large an error). Fields
/// may be in double quotes; blanks around fields and empty lines are passed over; lines end in LF or CRLF; a byte order mark is
/// allowed. Throws IoError with file:line:column and the offending text on anything that is no number, or a line of another
/// length.
LEVIN_API CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// The same for text that is in memory; `name` stands for the file in messages.
LEVIN_API CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options = {});

}  // namespace levin
