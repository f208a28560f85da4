#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "levin/data/table_data_module.h"

namespace levin::detail {

/// What files of a table hold, as TableDataOptions say.
struct LabelledTable {
  std::string file = {};     ///< for messages
  at::Tensor features = {};  ///< float32, scaled
  at::Tensor labels = {};    ///< int64 for classification, else float32
  /// Labels that are texts: the texts, sorted, whose indices the labels are.
  std::vector<std::string> classes = {};
  std::vector<std::string> columns = {};          ///< names of all columns; empty without a header
  std::optional<std::int64_t> label_column = {};  ///< where the labels were in that file; unset: in another file
};

/// Reads features and labels. Throws IoError on a damaged file, ConfigError when options do not fit what it holds.
LabelledTable read_labelled_table(const TableDataOptions& options, const std::filesystem::path& path,
                                  const std::optional<std::filesystem::path>& label_path);

/// Throws ConfigError when the features of `table`, which `option` names, are not those of `training`: in number and shape, and
/// in name and order where both have a header.
void check_same_features(const char* option, const LabelledTable& table, const LabelledTable& training);

/// Reads the features of a file that may have a column of labels or not, and has those of `training` otherwise. Throws alike.
at::Tensor read_features(const TableDataOptions& options, const std::filesystem::path& path, const LabelledTable& training);

/// The labels as indices of these classes, which may be another file's or an earlier run's. Throws ConfigError that names a
/// label which is not among them.
at::Tensor labels_among(const std::vector<std::string>& classes, const LabelledTable& table);

}  // namespace levin::detail
