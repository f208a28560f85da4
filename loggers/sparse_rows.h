#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// Rows of numbers of which each has values in a few of many columns: they cost what their values cost, however many columns
/// there are.
class SparseRows {
 public:
  /// Adds a cell to the row that end_row() will end. A second cell of one column takes the first one's place.
  void add(std::size_t column, std::int64_t value) { add_number(column, value); }
  void add(std::size_t column, double value) { add_number(column, value); }
  void add(std::size_t column, std::string_view number);
  void end_row() { row_ends_.push_back(cells_.size()); }
  void clear();

  std::size_t size() const { return row_ends_.size(); }
  bool empty() const { return row_ends_.empty(); }
  /// Memory that they take.
  std::size_t bytes() const { return numbers_.size() + cells_.size() * sizeof(Cell) + row_ends_.size() * sizeof(std::size_t); }

  /// Appends a row, with a cell for each of `columns` and a line end, to a CSV text.
  void append_row(std::string& text, std::size_t row, std::size_t columns) const;
  /// Appends a row as a line of pairs: name, number, name, number, ….
  void append_pairs(std::string& text, std::size_t row, const std::vector<std::string>& names) const;
  /// The most bytes that a row with cells in the columns of this one can take.
  std::size_t widest(std::size_t row, std::size_t columns) const;

 private:
  struct Cell {
    std::size_t column;
    std::size_t begin;  ///< its text, in numbers_
    std::size_t end;
  };

  template <class Number>
  void add_number(std::size_t column, Number value);
  std::size_t begin_of(std::size_t row) const { return row == 0 ? 0 : row_ends_[row - 1]; }
  std::string_view text_of(const Cell& cell) const {
    return std::string_view(numbers_).substr(cell.begin, cell.end - cell.begin);
  }
  void place(const Cell& cell);

  std::string numbers_;
  std::vector<Cell> cells_;  ///< of each row in the order of columns
  std::vector<std::size_t> row_ends_;
};

}  // namespace levin
