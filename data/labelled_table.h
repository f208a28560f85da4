#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "levin/data/csv_file.h"
#include "levin/data/table_data_module.h"

namespace levin::detail {

/// A feature of texts.
struct TextFeature {
  std::string column = {};              ///< its name, or its number in the file
  std::vector<std::string> texts = {};  ///< sorted
  bool is_one_hot = false;
};

/// What files of a table hold, as TableDataOptions say.
struct LabelledTable {
  std::string file = {};  ///< for messages
  /// Scaled: float32, or what the file has where mean and deviation are yet to be taken off. Columns of texts have indices.
  at::Tensor features = {};
  at::Tensor labels = {};  ///< int64 for classification, else float64
  /// Labels that are texts: the texts, sorted, whose indices the labels are.
  std::vector<std::string> classes = {};
  std::vector<std::string> columns = {};                                ///< names of the features; empty without a header
  std::string label_column = {};                                        ///< its name, where it has one
  std::map<std::int64_t, TextFeature> texts = {};                       ///< by the column of features
  std::vector<std::pair<std::int64_t, std::int64_t>> line_starts = {};  ///< as CsvTable's
  std::vector<std::pair<std::int64_t, std::string>> file_starts = {};   ///< as CsvTable's
  at::Tensor rows = {};                                                 ///< of what was read, where it has more of them
  bool is_array = false;                                                ///< of a file without columns, NumPy's or MNIST's

  /// "data.csv:7", or "data.npy, row 5 (from 0)".
  std::string place_of(std::int64_t row) const;
};

/// These rows of a table.
LabelledTable rows_of(const LabelledTable& table, const std::vector<std::int64_t>& rows);
/// In a message: the first of them, in quotes, and how many more.
std::string shown_names(std::vector<std::string> names);
/// Whether these names distinguish columns.
bool are_distinct_names(const std::vector<std::string>& names);
/// A table with these features alone, in this order. Each must be among its columns.
LabelledTable with_features(const LabelledTable& table, const std::vector<std::string>& names);

/// A table's features scaled, with as many bits as are needed yet.
at::Tensor scaled(const LabelledTable& table, const TableDataOptions& options);

/// Reads the files of a TableDataModule. Throws IoError on a damaged file, ConfigError when options do not fit what it holds.
class TableReader {
 public:
  explicit TableReader(const TableDataOptions& options) : options_(options) {}

  /// The file that `path` names. Called: first, since the others have the same columns.
  LabelledTable read_training();
  /// Another, which `option` names. Throws ConfigError also when its features are not those of the training data.
  LabelledTable read(const char* option, const std::filesystem::path& path,
                     const std::optional<std::filesystem::path>& label_path) const;
  /// One with labels, which are left out, or without.
  LabelledTable read_to_predict(const std::filesystem::path& path) const;

 private:
  /// A source of rows, of which several files may be parts.
  struct Source {
    std::string name;  ///< for messages
    std::vector<std::filesystem::path> files;
  };

  /// What is done with the columns of one file, each by its name or number there.
  struct Columns {
    std::vector<std::string> ignored = {};
    std::vector<std::string> one_hot = {};
    std::vector<std::string> coded = {};
    std::string label = {};  ///< empty: it has none
  };

  static Source source_of(const Paths& paths);
  CsvTable read_files(const Source& source, const Columns& columns) const;
  CsvTable read_file(const std::filesystem::path& path, const Columns& columns) const;
  CsvTable read_array(const std::filesystem::path& path, const Columns& columns) const;
  CsvTable read_head(const std::filesystem::path& path, const Columns& columns) const;
  void drop_rows(CsvTable& table) const;
  void name_texts(Columns& columns, const std::filesystem::path& path) const;
  LabelledTable take(CsvTable table, const Source& source, const Columns& columns) const;
  void take_label_file(LabelledTable& table, const std::filesystem::path& path) const;
  void remember_columns(const CsvTable& table, const Columns& columns, const std::string& file);
  Columns columns_of(const char* option, const std::filesystem::path& path, bool is_predicted) const;
  Columns columns_by_name(const char* option, const std::filesystem::path& path, const CsvTable& head, bool is_predicted) const;
  std::string name_of(std::int64_t column) const;
  LabelledTable fit_to_training(const char* option, LabelledTable table) const;
  void check_same_features(const char* option, const LabelledTable& table) const;

  const TableDataOptions& options_;
  // Of the training data's file.
  std::string file_;
  std::vector<std::string> names_;  ///< of all columns
  std::int64_t width_ = 0;
  std::set<std::int64_t> ignored_;
  std::set<std::int64_t> one_hot_;
  std::set<std::int64_t> coded_;
  std::optional<std::int64_t> label_;  ///< unset: in another file
  std::vector<std::string> features_;  ///< their names
  std::vector<std::int64_t> shape_;    ///< of a row's features
};

}  // namespace levin::detail
