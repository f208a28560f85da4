#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "levin/data/column_table.h"
#include "levin/data/csv_file.h"
#include "levin/data/labelled_table.h"

namespace levin::detail {

/// A table that is not in memory: files of columns whose groups of rows are read one after another, each as if it were the
/// table. Threading: any.
class StreamedTable {
 public:
  struct Group {
    std::size_t file = 0;
    std::int64_t number = 0;  ///< in the file
    std::int64_t rows = 0;
    std::int64_t first_of_file = 0;  ///< its first row in the file
    std::int64_t first = 0;          ///< and among all rows
  };
  /// What is done with rows. Threading: called by several threads at once.
  struct Handling {
    /// Divides them into features, scaled, and labels.
    std::function<LabelledTable(CsvTable rows)> take;
    /// The numbers of those that do not lack a value for which rows are left out.
    std::function<at::Tensor(const CsvTable& rows)> complete_rows;
  };

  /// `name`: of all files, for messages.
  StreamedTable(std::string name, std::vector<ColumnTable> files) : name_(std::move(name)), files_(std::move(files)) {
    find_groups();
  }
  /// Called: before take() and complete_rows().
  void set_handling(Handling handling) { handling_ = std::move(handling); }

  const std::string& name() const { return name_; }
  const std::vector<ColumnTable>& files() const { return files_; }
  /// The columns, without rows.
  const CsvTable& head() const;
  const std::vector<Group>& groups() const { return groups_; }  ///< that have rows
  std::int64_t rows() const { return rows_; }
  /// In memory, where each number takes 8 bytes.
  double bytes() const;
  /// Of the group that needs most of it.
  double bytes_of_largest_group() const;
  /// Of names and sizes of the files.
  std::uint64_t fingerprint() const;

  /// All rows of a group, with columns as the first file has them.
  CsvTable read(std::size_t group) const;
  /// Of rows that were read: what Handling says.
  LabelledTable take(CsvTable rows) const { return handling_.take(std::move(rows)); }
  at::Tensor complete_rows(const CsvTable& rows) const { return handling_.complete_rows(rows); }

 private:
  void find_groups();
  double bytes_of(std::size_t file, std::int64_t rows) const;
  const ColumnTable& first_file() const;

  std::string name_;
  std::vector<ColumnTable> files_;
  Handling handling_;
  std::vector<Group> groups_;
  std::int64_t rows_ = 0;
};

}  // namespace levin::detail
