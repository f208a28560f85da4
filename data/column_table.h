#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/data/column_layout.h"
#include "levin/data/csv_file.h"

// Files of columns (core/files/column_file.h) as the table that a CSV file becomes, and several tables as one.
namespace levin::detail {

/// Reads a file whose name has a column_format_of(). A column of lists of n numbers becomes n columns: "name[0]", "name[1]", ….
/// A column that pandas made of an index is left out, as if it were not there, unless an option names it; CsvTable::notes says
/// so. Throws IoError on a damaged file, ConfigError where columns are not fit for numbers, with the columns' names and what to
/// do.
CsvTable read_column_file(const std::filesystem::path& file, const ColumnTableOptions& options);

/// The same by groups of rows. The file is open while it is read.
class ColumnTable {
 public:
  /// Reads what its columns are. Throws as read_column_file().
  ColumnTable(const std::filesystem::path& path, const ColumnTableOptions& options);
  const std::filesystem::path& path() const { return layout_.file; }
  /// Without rows; its `texts` are columns that hold texts.
  const CsvTable& head() const { return layout_.head; }
  std::int64_t rows() const;
  const std::vector<std::int64_t>& rows_of_groups() const { return layout_.rows_of_groups; }
  /// Whether a group is read without the others.
  bool reads_groups_alone() const { return layout_.reads_groups_alone; }
  /// The rows of a group. Threading: any.
  CsvTable read(std::int64_t group) const;

 private:
  std::vector<FolderColumn> folder_columns_;
  ColumnLayout layout_;
};

/// A table whose columns are in the order of another file's first ones, by their names where these are distinct. Throws
/// ConfigError where columns differ.
CsvTable arranged_as(const CsvTable& first, const std::string& first_file, CsvTable table, const std::string& file);

/// The rows of several tables, each with the name of its file, in one. Columns with distinct names are found by these. Throws
/// ConfigError where columns differ.
CsvTable concatenated(std::vector<CsvTable> tables, const std::vector<std::string>& files);

/// What a path that is given stands for: a pattern's files; the files of columns in a folder, and in its folders that are named
/// "year=2020"; or the file itself. Throws ConfigError where a pattern or a folder has none.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path);

}  // namespace levin::detail
