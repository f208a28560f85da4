#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/data/csv_file.h"

// Files of columns (core/files/column_file.h) as the table that a CSV file becomes, and several tables as one.
namespace levin::detail {

/// What is done with the columns of such a file, named as for find_column(); a column of lists also stands for all of its
/// numbers.
struct ColumnTableOptions {
  /// As CsvOptions has them.
  std::optional<double> missing = {};
  std::map<std::string, double> missing_in = {};
  std::vector<std::string> complete_columns = {};
  std::string class_column = {};
  std::vector<std::string> text_columns = {};
  std::vector<std::string> ignore_columns = {};
  bool times_in_days = false;
  /// Without rows: the names alone, and in CsvTable::texts the columns that hold texts.
  bool only_head = false;
};

/// Reads a file whose name has a column_format_of(). A column of lists of n numbers becomes n columns: "name[0]", "name[1]", ….
/// A column that pandas made of an index is left out, as if it were not there, unless an option names it; CsvTable::notes says
/// so. Throws IoError on a damaged file, ConfigError where columns are not fit for numbers, with the columns' names and what to
/// do.
CsvTable read_column_file(const std::filesystem::path& file, const ColumnTableOptions& options);

/// The rows of several tables, each with the name of its file, in one. Columns with distinct names are found by these. Throws
/// ConfigError where columns differ.
CsvTable concatenated(std::vector<CsvTable> tables, const std::vector<std::string>& files);

/// What a path that is given stands for: a pattern's files, the files of columns in a folder, or the file itself. Throws
/// ConfigError where a pattern or a folder has none.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path);

}  // namespace levin::detail
