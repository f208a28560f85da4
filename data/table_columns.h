#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/data/csv_file.h"
#include "levin/data/labelled_table.h"

namespace levin::detail {

/// What is done with the columns of one file, each by its name or number there.
struct TableColumns {
  std::vector<std::string> ignored = {};
  std::vector<std::string> one_hot = {};
  std::vector<std::string> coded = {};
  std::string label = {};  ///< empty: it has none
};

/// The number in the file of a column that `option` names. Throws ConfigError where there is none, or several.
std::int64_t find_in_file(const char* option, const CsvTable& table, const std::string& wanted, const std::string& file);

/// The columns of the training data's file, by which those of other files are found.
class TrainingColumns {
 public:
  /// Of a table that was read as `columns` say. Throws ConfigError where two options name the same column.
  void remember(const CsvTable& table, const TableColumns& columns, const std::string& file);
  /// Called: last.
  void remember_features(const LabelledTable& table);

  /// Of all columns of the file.
  const std::vector<std::string>& names() const { return names_; }
  bool has_label() const { return label_.has_value(); }
  /// Whether the file has a label, or something to ignore, besides features.
  bool has_others() const { return label_ || !ignored_.empty(); }
  /// Whether the first column is a feature.
  bool begins_with_feature() const { return !ignored_.contains(0) && label_ != 0; }

  /// As another file without columns has them.
  TableColumns by_number() const;
  /// To read another file's head with: one without names is read by numbers, one with names by these.
  TableColumns by_number_and_name() const;
  /// As another file has them, which `option` names: by name where both have names, else by number.
  TableColumns in_file(const char* option, const std::string& file, const CsvTable& head, bool is_predicted) const;
  /// Another table with the features of the training data, in its order. Throws ConfigError where it has others.
  LabelledTable in_order(const char* option, LabelledTable table) const;
  /// The columns of an array of so many that are features: only its width says whether it has labels.
  std::vector<std::int64_t> features_in_array(std::int64_t width) const;

 private:
  TableColumns by_name(const char* option, const std::string& file, const CsvTable& head, bool is_predicted) const;
  std::string name_of(std::int64_t column) const;
  void check_same_features(const char* option, const LabelledTable& table) const;

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
