#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace levin::test {

/// Results of a matrix of cases as a table in a Markdown file: one section of it, between two marks, is replaced; the rest
/// stays. Cells come in the order in which rows and columns were first named.
class MatrixReport {
 public:
  /// `section`: which marks, `<!-- section -->` and `<!-- end of section -->`. `corner`: heading of the first column.
  MatrixReport(std::string section, std::string corner) : section_(std::move(section)), corner_(std::move(corner)) {}

  /// True when the whole matrix is asked for (LEVIN_MATRIX=all), rather than the sample that `make test` runs.
  static bool whole();

  /// Fixes the place of a column that is named later.
  void add_column(const std::string& column);
  /// Counts one run of a cell.
  void add(const std::string& row, const std::string& column, bool passed);
  /// A line of each row: "yes" or "no" where a cell is one run, "4 of 4" or "3 of 4" where it is several, "–" where none ran.
  std::string table() const;
  /// Replaces the section in the file. Throws std::runtime_error when the marks are not there.
  void write(const std::filesystem::path& file) const;

 private:
  struct Cell {
    int runs = 0;
    int passed = 0;
    std::string str() const;
  };
  std::string section_;
  std::string corner_;
  std::vector<std::string> rows_;
  std::vector<std::string> columns_;
  std::map<std::pair<std::string, std::string>, Cell> cells_;
};

}  // namespace levin::test
