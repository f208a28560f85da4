#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/core/files/column_file.h"
#include "levin/data/csv_file.h"
#include "levin/data/folder_columns.h"

namespace levin::detail {

/// What is done with the columns of a file of columns, named as for find_column(); a column of lists also stands for all of its
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
  std::vector<FolderColumn> folder_columns = {};  ///< also read, from the names of the file's folders
  /// Without rows: the names alone, and in CsvTable::texts the columns that hold texts.
  bool only_head = false;
};

/// A column of the file, which is one of the table, or of lists several.
struct ColumnPart {
  ColumnInfo info = {};
  std::size_t column = 0;           ///< of the file
  std::int64_t begin = 0;           ///< its first column among those of the table, also of ones that are left out
  std::int64_t width = 1;           ///< how many
  std::int64_t place = 0;           ///< its first among the values
  std::vector<bool> is_taken = {};  ///< of its columns
  bool is_text = false;
  bool is_class = false;

  bool has_taken() const;
  std::string shown_name() const;  ///< in a message
};

/// How a file of columns becomes a table.
struct ColumnLayout {
  std::filesystem::path file = {};
  bool times_in_days = false;
  std::vector<ColumnPart> parts = {};
  std::set<std::int64_t> complete = {};             ///< of the table's columns, those in which no value may be missing
  std::vector<std::optional<double>> missing = {};  ///< of each of them, what stands for missing values
  CsvTable head = {};                               ///< without rows; its `texts` are columns that hold texts
  std::vector<std::int64_t> rows_of_groups = {};
  bool reads_groups_alone = false;  ///< as ColumnFile says
};

/// Throws ConfigError where columns are not fit for numbers, with the columns' names and what to do.
ColumnLayout layout_of(ColumnFile& file, const std::filesystem::path& path, const ColumnTableOptions& options);

}  // namespace levin::detail
