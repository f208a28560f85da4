#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "levin/data/csv_file.h"
#include "levin/data/labelled_table.h"
#include "levin/data/table_data_module.h"

// What is likely a mistake in data that was read, as warnings.
namespace levin::detail {

/// Values that are not numbers to compute with, of rows that may come in parts.
class WrongValues {
 public:
  void add(const CsvTable& table, const std::string& file);
  /// Warns of them.
  void report(const std::string& file) const;
  bool has_any() const { return nan_.values + infinite_.values + too_large_.values > 0; }

 private:
  struct Kind {
    std::size_t values = 0;
    std::string first;  ///< where
  };
  Kind nan_;
  Kind infinite_;
  Kind too_large_;  ///< for the 32-bit floats of batches, where they are infinite
};

/// Says which values 32-bit floats would not distinguish.
void warn_of_lost_bits(const LabelledTable& table, const TableDataOptions& options);
/// Columns of row numbers are features that identify rows, and say nothing of a new row.
void warn_of_row_numbers(const LabelledTable& table, bool has_first_column);
/// A feature that is the label under another name leaves nothing to learn.
void warn_of_leaks(const LabelledTable& table, TableTask task);
/// Labels most of which stand in one row are not classes.
void warn_of_rare_classes(const LabelledTable& table, TableTask task);

}  // namespace levin::detail
