#include "levin/core/console/table.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"

namespace levin {

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

namespace {

using Cells = std::vector<std::string>;

void widen(std::vector<std::size_t>& widths, const Cells& cells) {
  widths.resize(std::max(widths.size(), cells.size()));
  for (std::size_t column = 0; column < cells.size(); ++column) {
    widths[column] = std::max(widths[column], display_width(one_line(cells[column])));
  }
}

std::string text_of(const Cells& cells, const std::vector<std::size_t>& widths, const std::vector<Align>& align) {
  std::string line;
  for (std::size_t column = 0; column < widths.size(); ++column) {
    if (column > 0) line += " | ";
    const std::string cell = column < cells.size() ? one_line(cells[column]) : "";
    const std::string padding(widths[column] - display_width(cell), ' ');
    const bool right = column < align.size() && align[column] == Align::kRight;
    line += right ? padding + cell : cell + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string TextTable::str() const {
  std::vector<std::size_t> widths;
  widen(widths, header);
  for (const Cells& row : rows) widen(widths, row);

  std::size_t width = widths.empty() ? 0 : 3 * (widths.size() - 1);
  for (const std::size_t column_width : widths) width += column_width;

  std::string text = format("{}\n{}", text_of(header, widths, align), std::string(width, '-'));
  for (const Cells& row : rows) text += "\n" + text_of(row, widths, align);
  return text;
}

}  // namespace levin
