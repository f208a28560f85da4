#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/core/label_scale.h"
#include "levin/data/labelled_table.h"
#include "levin/data/table_data_module.h"

// What is learnt from a table that may come in parts.
namespace levin::detail {

/// Mean and deviation of the finite values of rows that come in parts. Of one part they are std_mean's; those of several are
/// merged by their counts (Chan, Golub and LeVeque), and equal to rounding. Without a finite value both are 0.
class Moments {
 public:
  /// [N, …]: of each element over the first dimension.
  void add(const at::Tensor& rows);
  const at::Tensor& mean() const { return mean_; }
  const at::Tensor& deviation() const { return deviation_; }
  /// Of rows of one number; the deviation is 1 where all are the same.
  LabelScale scale() const;

 private:
  at::Tensor count_;  ///< of each element's finite values
  at::Tensor mean_;
  at::Tensor deviation_;
};

/// What the labels of some rows are.
class LabelSummary {
 public:
  LabelSummary() = default;
  explicit LabelSummary(const at::Tensor& labels) { add(labels); }
  /// int64 for classification, else float64.
  void add(const at::Tensor& labels);
  std::int64_t rows() const { return rows_; }
  /// Of classes; 0 without rows.
  std::int64_t least() const { return least_.value_or(0); }
  std::int64_t most() const { return most_.value_or(0); }
  /// Of numbers.
  LabelScale scale() const { return moments_.scale(); }

 private:
  std::int64_t rows_ = 0;
  std::optional<std::int64_t> least_;
  std::optional<std::int64_t> most_;
  Moments moments_;
};

/// Texts that come in parts, each of which has its own list.
class TextUnion {
 public:
  /// `occurring`: of a part's texts, those that count; the others only decide how all are sorted.
  void add(const std::vector<std::string>& texts, const std::vector<bool>& occurring);
  /// As one part has them, or sorted as those of several would be: as numbers where `as_numbers` and all are such.
  std::vector<std::string> occurring(bool as_numbers) const;

 private:
  std::vector<std::string> of_first_part_;
  std::map<std::string, bool> occurs_;  ///< by text
  int parts_ = 0;
};

/// What a TableEncoder learns from the training data. Parts: a table in memory is one, and one that is read by groups of rows
/// has many.
class TableLearner {
 public:
  explicit TableLearner(const TableDataOptions& options) : options_(options) {}

  /// Rows of the training data. Throws ConfigError where labels are texts in one part, and numbers in another.
  void add(const LabelledTable& training);
  /// The labels' texts, sorted; those of validation and test data of the same files too.
  std::vector<std::string> classes() const { return classes_.occurring(are_class_numbers_); }
  /// Of columns of texts, by the column of the features.
  std::map<std::int64_t, TableCategories> categories() const;
  /// Of the features as they are read; of columns of texts without a meaning.
  const Moments& features() const { return features_; }
  const Moments& labels() const { return labels_; }

  const std::string& file() const { return file_; }
  const std::string& label_column() const { return label_column_; }
  const std::vector<std::string>& columns() const { return columns_; }
  /// Of a row's features as they are read.
  const std::vector<std::int64_t>& shape() const { return shape_; }

 private:
  struct Feature {
    std::string column;
    bool is_one_hot = false;
    TextUnion texts;
  };

  void add_texts(const LabelledTable& training);
  void add_classes(const LabelledTable& training);

  const TableDataOptions& options_;
  std::string file_;
  std::string label_column_;
  std::vector<std::string> columns_;
  std::vector<std::int64_t> shape_;
  std::map<std::int64_t, Feature> texts_;
  TextUnion classes_;
  bool are_class_numbers_ = false;
  std::optional<bool> has_classes_;
  Moments features_;
  Moments labels_;
};

}  // namespace levin::detail
