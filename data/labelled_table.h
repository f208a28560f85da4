#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
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
  bool are_classes_numbers = false;                                     ///< these texts are numbers, of map_labels
  std::vector<std::string> columns = {};                                ///< names of the features; empty without a header
  std::string label_column = {};                                        ///< its name, where it has one
  std::map<std::int64_t, TextFeature> texts = {};                       ///< by the column of features
  std::vector<std::pair<std::int64_t, std::int64_t>> line_starts = {};  ///< as CsvTable's
  std::vector<std::pair<std::int64_t, std::string>> file_starts = {};   ///< as CsvTable's
  at::Tensor rows = {};                                                 ///< of what was read, where it has more of them
  bool is_array = false;                                                ///< of a file without columns, NumPy's or MNIST's

  /// Where its rows stand, for place_in_file().
  CsvTable places() const;
  /// "data.csv:7", or "data.npy, row 5 (from 0)".
  std::string place_of(std::int64_t row) const;
};

/// These rows of a table.
LabelledTable rows_of(const LabelledTable& table, const at::Tensor& rows);
/// These rows of what was read.
CsvTable selected(CsvTable table, const at::Tensor& rows);
/// In a message: the first of them, in quotes, and how many more.
std::string shown_names(std::vector<std::string> names);
/// Whether these names distinguish columns.
bool are_distinct_names(const std::vector<std::string>& names);
/// A table with these features alone, in this order. Each must be among its columns.
LabelledTable with_features(const LabelledTable& table, const std::vector<std::string>& names);

/// A table's features scaled, with as many bits as are needed yet.
at::Tensor scaled(const LabelledTable& table, const TableDataOptions& options);
/// Whether 32-bit floats may not hold them.
bool has_more_than_32_bits(const at::Tensor& values);
/// Gives a table its labels, as the options say. Throws ConfigError where one is no whole number and has to be.
void take_labels(LabelledTable& table, const at::Tensor& labels, const TableDataOptions& options);

/// "data.csv:7", or "data.npy, row 5 (from 0)": of a row among those that were read.
std::string place_in_file(const std::string& file, const CsvTable& table, std::int64_t row);
/// The number of such a row, of one that stayed.
std::int64_t row_as_read(const at::Tensor& rows, std::int64_t row);

}  // namespace levin::detail
