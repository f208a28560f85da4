#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/data/labelled_table.h"
#include "levin/data/streamed_table.h"
#include "levin/data/table_data_module.h"
#include "levin/data/table_encoder.h"
#include "levin/data/table_learner.h"

namespace levin::detail {

/// Training, validation, test or other data: rows in memory, or a stream of them.
class TablePart {
 public:
  virtual ~TablePart();
  TablePart() = default;
  TablePart(const TablePart&) = delete;
  TablePart& operator=(const TablePart&) = delete;

  /// For messages.
  virtual const std::string& file() const = 0;
  virtual std::int64_t rows() const = 0;
  /// Of rows with labels.
  virtual LabelSummary labels() const = 0;
  /// A loader of "features" and, where rows have one, "label". Throws ConfigError where a row has a text that the encoder does
  /// not know; a stream throws it when it comes to the row.
  virtual LoaderPtr loader(const TableEncoder& encoder, const TableDataOptions& options, bool is_training) const = 0;
};

/// The parts of one table; null: without rows.
struct TableParts {
  std::shared_ptr<const TablePart> train;
  std::shared_ptr<const TablePart> val;
  std::shared_ptr<const TablePart> test;
};

/// All rows of a table.
std::shared_ptr<const TablePart> whole_part(LabelledTable table);
/// The same; finds out by reading it which rows are left out, and what its labels are, if it has some.
std::shared_ptr<const TablePart> whole_part(std::shared_ptr<const StreamedTable> table, const TableDataOptions& options,
                                            bool has_labels);

/// Divides a table at random by the options' seed into such parts of its rows, and learns from those to train on. The same rows
/// are in the same parts, whether the table is in memory or not.
TableParts divided(const LabelledTable& table, double val, double test, const TableDataOptions& options, TableLearner& learner);
TableParts divided(const std::shared_ptr<const StreamedTable>& table, double val, double test, const TableDataOptions& options,
                   TableLearner& learner);

}  // namespace levin::detail
