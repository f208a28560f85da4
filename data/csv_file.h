#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/data/read_file.h"

namespace levin {

struct LEVIN_API CsvOptions {
  char delimiter = ',';
  /// Whether the first line names the columns. Default: it does when none of its fields is a number, when it has the name of a
  /// column that these options name, or when it numbers three columns or more (0, 1, 2, …), as pandas does with columns that
  /// have no names. A first line with both numbers and names, or of 0 and 1 alone, is an error that asks for this option.
  std::optional<bool> header{};
  /// Value of a field that is empty, NaN, NA, N/A, null, None, ? or the like. Default: such a field is an error, but for NaN,
  /// which is a number. In a column of texts it is the text "". NaN marks them all in `values`, those of texts and labels too.
  std::optional<double> missing{};
  /// The same of single columns, by their names or numbers. Those that the file does not have are passed over.
  std::map<std::string, double> missing_in{};
  /// The decimal mark of numbers: '.', or ',' where another delimiter divides fields or these are in quotes.
  char decimal = '.';
  /// Columns in which a missing value is an error whatever `missing` says, named as for find_column(); class_column is one.
  std::vector<std::string> complete_columns{};
  /// How many times its size a compressed file may expand to (see read_input_file()).
  double max_expansion = kMaxExpansion;
  /// A column that may hold texts instead of numbers, named as for find_column(). Default: none.
  std::string class_column{};
  /// Columns whose fields are texts, whatever they look like. One that the file does not have is passed over.
  std::vector<std::string> text_columns{};
  /// Columns that are left out, whatever they hold. One that the file does not have is passed over.
  std::vector<std::string> ignore_columns{};
  /// Rows to read; 0: none, only the first line. Default: all.
  std::optional<std::int64_t> most_rows{};
};

/// A table of numbers.
struct LEVIN_API CsvTable {
  std::vector<std::string> columns;  ///< names; empty without a header
  at::Tensor values;                 ///< float64, [rows, columns]
  /// The texts of CsvOptions::class_column, sorted; its values are their indices here. Empty when it holds numbers.
  std::vector<std::string> classes{};
  std::int64_t class_place = 0;  ///< the column of `values` that has their indices
  /// Rows whose line does not follow that of the row before, with their lines.
  std::vector<std::pair<std::int64_t, std::int64_t>> line_starts{};
  /// The texts of columns of CsvOptions::text_columns, by their column in `values`, which has indices of these. They are
  /// sorted, as numbers where all are such, else by their bytes.
  std::map<std::int64_t, std::vector<std::string>> texts{};
  /// Of each column, which it is in the file, from 0. Empty: no column was left out.
  std::vector<std::int64_t> places{};
  std::vector<std::string> columns_of_file{};  ///< the names of all columns, those that were left out too
  std::int64_t width_of_file = 0;
  /// What the reader has found out by itself, for users to know: a header of numbers, an index that it has left out.
  std::vector<std::string> notes{};
  /// Of tables from several files, the first row of each, with its name.
  std::vector<std::pair<std::int64_t, std::string>> file_starts{};
  at::Tensor rows{};  ///< of each row, which it is among those that were read; undefined where none was left out

  /// The line that a row stands on, from 1; 0 when that is not known.
  std::int64_t line_of(std::int64_t row) const;
};

/// The number of a column that is written as its name, or as its number from 0, or from the end (-1 is the last); nullopt when
/// there is none.
LEVIN_API std::optional<std::int64_t> find_column(const std::vector<std::string>& names, std::int64_t width,
                                                  const std::string& wanted);

/// Reads a CSV file of numbers (nan and inf included; what is too small for a float64 is 0, what is too large an error; true
/// and false are 1 and 0). Fields may be in double quotes, and have line breaks there; blanks around fields and empty lines are
/// passed over, and rows without any value; lines end in LF, CRLF or CR; a byte order mark is allowed. Throws IoError with
/// file:line:column and the offending text on anything that is not a number, a line of another length, or a class column that
/// holds both numbers and texts, and where the file is not text in UTF-8 at all, but a Parquet file or the like.
///
/// A first column without a name, of texts or of whole numbers that are all different, is an index, as pandas and R write it:
/// it is left out, and CsvTable::notes says so. One of other numbers is an error.
LEVIN_API CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// The same for text that is in memory; `name` stands for the file in messages.
LEVIN_API CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options = {});

}  // namespace levin
