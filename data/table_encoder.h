#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/config/value.h"
#include "levin/core/label_scale.h"
#include "levin/data/labelled_table.h"
#include "levin/data/table_data_module.h"
#include "levin/data/table_learner.h"

namespace levin::detail {

/// What is learnt from the training data alone, and makes numbers for a model of all that files hold: the categories of columns
/// of texts, mean and deviation of the others and of the labels, and the texts of the labels.
class TableEncoder {
 public:
  explicit TableEncoder(TableDataOptions options) : options_(std::move(options)) {}

  /// Throws ConfigError where a column has too many texts for one-hot.
  void learn(const TableLearner& learnt);
  Value state_dict() const;
  /// After learn(): columns with names then are the training data's, in its order, whatever else the file has. Throws
  /// ConfigError when the file lacks some, has another number of columns without names, or categories of other columns.
  void load_state_dict(const Value& state);
  /// False before learn() and load_state_dict().
  bool knows_data() const { return knows_data_; }
  /// What is done to features and labels, in words: see DataModule::preparations().
  std::vector<std::string> preparations() const;

  /// Names of the columns of a row as it is read; empty where they have none, or some the same.
  const std::vector<std::string>& columns() const { return columns_; }
  /// The shape of such a row, with a column of categories as one number.
  const std::vector<std::int64_t>& read_shape() const { return read_shape_; }
  /// The columns that have the categories, in the order of categories().
  const std::vector<std::int64_t>& category_columns() const { return category_columns_; }
  const std::vector<std::string>& classes() const { return classes_; }
  const std::vector<TableCategories>& categories() const { return categories_; }
  LabelScale label_scale() const { return label_scale_; }
  /// The shape of a row's features, with columns of texts as numbers.
  const std::vector<std::int64_t>& shape() const { return shape_; }

  /// Features with columns of texts as numbers. Throws ConfigError that names file, line, column and text where a text is not
  /// among the training data's.
  at::Tensor encoded(const LabelledTable& table) const;
  /// These as batches have them, float32, in the shape that the options give.
  at::Tensor finished(const at::Tensor& encoded) const;
  /// Labels as batches have them: int64, or float32. Throws ConfigError that names a text which is not one of the classes.
  at::Tensor labels(const LabelledTable& table) const;

 private:
  const TableCategories* categories_of(std::int64_t column) const;
  static std::int64_t width_of(const TableCategories* categories);
  std::vector<double> codes_of(const TextFeature& feature, const TableCategories& categories) const;
  at::Tensor columns_of(const LabelledTable& table, std::int64_t column, const TableCategories& categories) const;
  at::Tensor spread(const at::Tensor& of_columns, double of_categories) const;
  at::Tensor standardized(const at::Tensor& encoded) const;
  void find_shape();
  void take_columns(const Value& state);
  void load_columns(const std::vector<std::string>& names, const std::vector<std::int64_t>& shape);
  void load_categories(const Value* saved);

  TableDataOptions options_;
  bool knows_data_ = false;
  std::vector<std::string> classes_;
  std::vector<TableCategories> categories_;
  std::vector<std::int64_t> category_columns_;  ///< where these are among the columns that are read
  std::vector<std::string> columns_;            ///< names of those; empty where they have none, or some the same
  std::vector<std::int64_t> read_shape_;        ///< of a row's features as they are read
  std::string file_;                            ///< of the training data, and the name of its label, for messages
  std::string label_column_;
  std::vector<std::int64_t> shape_;
  at::Tensor mean_;  ///< float64, in the shape of `shape_`
  at::Tensor deviation_;
  LabelScale label_scale_;
};

}  // namespace levin::detail
