#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace levin::test {

/// Results of a matrix of cases as a table in deadlock-matrix.md of the build folder. Replaces its own section; others stay.
/// Rows and columns have the order in which they were first named.
class MatrixReport {
 public:
  /// `title`: the section's heading. `corner`: heading of the first column.
  MatrixReport(std::string title, std::string corner) : title_(std::move(title)), corner_(std::move(corner)) {}

  /// Counts one run of a cell.
  void add(const std::string& row, const std::string& column, bool passed);
  void write() const;

 private:
  struct Runs {
    int all = 0;
    int passed = 0;
  };
  std::string title_;
  std::string corner_;
  std::vector<std::string> rows_;
  std::vector<std::string> columns_;
  std::map<std::pair<std::string, std::string>, Runs> cells_;
};

}  // namespace levin::test
