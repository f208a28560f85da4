#pragma once

#include <map>
#include <string>
#include <vector>

namespace levin::test {

/// Results of a matrix of cases as a table in deadlock-matrix.md of the build folder: a section of its own, which is replaced;
/// the others stay. Cells come in the order in which rows and columns were first named.
class MatrixReport {
 public:
  /// `title`: the section's heading. `corner`: heading of the first column.
  MatrixReport(std::string title, std::string corner) : title_(std::move(title)), corner_(std::move(corner)) {}

  /// True when the whole matrix is asked for (LEVIN_MATRIX=all), rather than the sample that `make test` runs.
  static bool whole();

  /// Fixes the place of a column that is named later.
  void add_column(const std::string& column);
  /// Counts one run of a cell.
  void add(const std::string& row, const std::string& column, bool passed);
  /// A line of each row: "yes" or "no" where a cell is one run, "4 of 4" or "3 of 4" where it is several, "–" where none ran.
  std::string table() const;
  /// Adds the section to the file, or replaces it.
  void write() const;

 private:
  struct Cell {
    int runs = 0;
    int passed = 0;
    std::string str() const;
  };
  std::string title_;
  std::string corner_;
  std::vector<std::string> rows_;
  std::vector<std::string> columns_;
  std::map<std::pair<std::string, std::string>, Cell> cells_;
};

}  // namespace levin::test
