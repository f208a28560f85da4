#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace levin::test {

/// A CSV file as text: the cells of each row by column. Does not support commas inside cells, as metrics have none.
class CsvTable {
 public:
  /// Throws std::runtime_error, naming the file, when it is missing, or a row has more cells than the header, or fewer unless
  /// that is allowed: missing cells are then empty.
  static CsvTable read(const std::filesystem::path& file, bool may_lack_cells = false);

  const std::vector<std::string>& columns() const { return columns_; }
  bool has(const std::string& column) const;
  std::size_t size() const { return rows_.size(); }
  /// The cell's text; empty if the row has no value.
  const std::string& cell(std::size_t row, const std::string& column) const;
  /// The values of a column, without the empty cells.
  std::vector<double> values(const std::string& column) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::map<std::string, std::string>> rows_;
};

}  // namespace levin::test
