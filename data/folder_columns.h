#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/files/column_file.h"

// Columns that names of folders hold, as "year=2020/city=Ulm": Hive, Spark and pandas write tables in parts so.
namespace levin::detail {

/// The values of a file's folders by the names of their columns, outermost first.
using FolderValues = std::vector<std::pair<std::string, std::string>>;

struct FolderColumn {
  std::string name = {};
  bool is_number = false;  ///< each folder's value is one; else they are texts
};

/// What the names of the folders say in which each file stands, below the path that stands for all: a folder or a pattern.
std::vector<FolderValues> values_of_folders(const std::filesystem::path& given,
                                            const std::vector<std::filesystem::path>& files);

/// The columns of files, of each of which these are the values. Throws ConfigError where some lack a column.
std::vector<FolderColumn> folder_columns_of(const std::vector<FolderValues>& values,
                                            const std::vector<std::filesystem::path>& files);

/// Opens a file of columns. Its first ones are those of its folders, wherever in its path, but for what the file itself has.
/// Throws ConfigError where no folder has a column, or one has no number for it.
std::unique_ptr<ColumnFile> open_column_file(const std::filesystem::path& file, const std::vector<FolderColumn>& of_folders);

}  // namespace levin::detail
