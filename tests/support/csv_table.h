#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::test {

/// A CSV file as text (RFC 4180), as readers of columns (Python's csv.DictReader, pandas) see it. A last line without an end is
/// still being written, and left out.
class CsvTable {
 public:
  using Cells = std::vector<std::string>;

  /// Throws std::runtime_error, naming the file, when it is missing, or a row has more cells than the header, or fewer unless
  /// that is allowed: missing cells are then empty.
  static CsvTable read(const std::filesystem::path& file, bool may_lack_cells = false);

  const Cells& columns() const { return columns_; }
  bool has(const std::string& column) const;
  std::size_t size() const { return rows_.size(); }
  const std::vector<Cells>& rows() const { return rows_; }
  /// The cell's text; empty if the row has no value.
  const std::string& cell(std::size_t row, const std::string& column) const;
  /// The values of a column, without the empty cells.
  std::vector<double> values(const std::string& column) const;

 private:
  /// Throws std::out_of_range for a column that is not there.
  std::size_t index_of(const std::string& column) const;

  Cells columns_;
  std::vector<Cells> rows_;
};

}  // namespace levin::test
