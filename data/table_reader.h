#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/data/column_layout.h"
#include "levin/data/csv_file.h"
#include "levin/data/folder_columns.h"
#include "levin/data/labelled_table.h"
#include "levin/data/streamed_table.h"
#include "levin/data/table_columns.h"
#include "levin/data/table_data_module.h"

namespace levin::detail {

/// Says how many of so many rows are left out because of missing values.
void tell_left_out(std::int64_t left_out, std::int64_t rows);
/// Throws ConfigError: a file to predict has rows with missing values.
[[noreturn]] void refuse_incomplete_rows(const std::string& file);
/// What rows may take in memory; infinite where the options do not say.
double max_bytes(const TableDataOptions& options);

/// Reads the files of a TableDataModule. Throws IoError on a damaged file, ConfigError when options do not fit what it holds.
class TableReader {
 public:
  explicit TableReader(TableDataOptions options) : options_(std::move(options)) {}

  /// The file that `path` names. Called: first, since the others have the same columns.
  LabelledTable read_training();
  /// Another, which `option` names. Throws ConfigError also when its features are not those of the training data.
  LabelledTable read(const char* option, const std::filesystem::path& path,
                     const std::optional<std::filesystem::path>& label_path) const;
  /// One with labels, which are left out, or without.
  LabelledTable read_to_predict(const std::filesystem::path& path) const;

  /// The same as streams, where a file, or several that are one table, needs more memory than the options permit; null where it
  /// does not. Throws ConfigError also where it does, and is no Parquet file. Called: instead of read_training(), or after it.
  std::shared_ptr<const StreamedTable> stream_training();
  std::shared_ptr<const StreamedTable> stream(const char* option, const std::filesystem::path& path, bool is_predicted) const;

 private:
  /// A source of rows, of which several files may be parts.
  struct Source {
    std::string name;  ///< for messages
    std::vector<std::filesystem::path> files;
    std::vector<FolderValues> folders;  ///< of each file
  };

  static Source source_of(const Paths& paths);
  CsvTable read_files(const Source& source, const TableColumns& columns) const;
  CsvTable read_file(const std::filesystem::path& path, const TableColumns& columns) const;
  CsvTable read_array(const std::filesystem::path& path, const TableColumns& columns) const;
  CsvTable read_head(const std::filesystem::path& path, const TableColumns& columns) const;
  ColumnTableOptions column_options(const TableColumns& columns) const;
  TableColumns training_columns(const Source& source) const;
  void check_missing(const CsvTable& head, const Source& source) const;
  at::Tensor complete_rows(const CsvTable& table) const;
  void drop_rows(CsvTable& table) const;
  void warn_of_likely_mistakes(const LabelledTable& table) const;
  void check_fits(const char* option, const Source& source) const;
  std::shared_ptr<StreamedTable> stream_of(const char* option, const Source& source, const TableColumns& columns) const;
  void handle_rows(StreamedTable& stream, const char* option, const Source& source, const TableColumns& columns) const;
  void name_texts(TableColumns& columns, const std::filesystem::path& path) const;
  LabelledTable take(CsvTable table, const Source& source, const TableColumns& columns) const;
  void take_label_file(LabelledTable& table, const std::filesystem::path& path) const;
  TableColumns columns_of(const char* option, const std::filesystem::path& path, bool is_predicted) const;
  LabelledTable fit_to_training(const char* option, LabelledTable table) const;

  TableDataOptions options_;
  TrainingColumns training_;
  std::vector<FolderColumn> folder_columns_;  ///< of the training data's files
};

}  // namespace levin::detail
