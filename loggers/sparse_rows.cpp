#include "levin/loggers/sparse_rows.h"

#include <algorithm>

#include "levin/loggers/csv_text.h"

namespace levin {

namespace {
constexpr std::size_t kWidestNumber = 24;  // "-2.2250738585072014e-308", "-9223372036854775808"
}  // namespace

template <class Number>
void SparseRows::add_number(std::size_t column, Number value) {
  const std::size_t begin = numbers_.size();
  append_csv_number(numbers_, value);
  place({column, begin, numbers_.size()});
}
template void SparseRows::add_number(std::size_t, std::int64_t);
template void SparseRows::add_number(std::size_t, double);

void SparseRows::add(std::size_t column, std::string_view number) {
  const std::size_t begin = numbers_.size();
  numbers_ += number;
  place({column, begin, numbers_.size()});
}

void SparseRows::place(const Cell& cell) {
  const auto begin = cells_.begin() + static_cast<std::ptrdiff_t>(begin_of(size()));
  const auto after = std::lower_bound(begin, cells_.end(), cell.column,
                                      [](const Cell& other, std::size_t column) { return other.column < column; });
  if (after != cells_.end() && after->column == cell.column) {
    *after = cell;
  } else {
    cells_.insert(after, cell);
  }
}

void SparseRows::clear() {
  numbers_.clear();
  cells_.clear();
  row_ends_.clear();
}

void SparseRows::append_row(std::string& text, std::size_t row, std::size_t columns) const {
  std::size_t column = 0;
  for (std::size_t index = begin_of(row); index < row_ends_[row]; ++index) {
    const Cell& cell = cells_[index];
    text.append(cell.column - column, ',');
    column = cell.column;
    text += text_of(cell);
  }
  text.append(columns - 1 - column, ',');
  text += '\n';
}

void SparseRows::append_pairs(std::string& text, std::size_t row, const std::vector<std::string>& names) const {
  for (std::size_t index = begin_of(row); index < row_ends_[row]; ++index) {
    if (index > begin_of(row)) text += ',';
    append_csv_text(text, names[cells_[index].column]);
    text += ',';
    text += text_of(cells_[index]);
  }
  text += '\n';
}

std::size_t SparseRows::widest(std::size_t row, std::size_t columns) const {
  return columns + (row_ends_[row] - begin_of(row)) * kWidestNumber;
}

}  // namespace levin
