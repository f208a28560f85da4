#include "levin/core/console/live_block.h"

#include <utility>

#include "levin/core/base/format.h"

namespace levin {

std::string LiveBlock::show(const std::vector<std::string>& lines, const TerminalSize& size) {
  // Everything scrolls, while room is made below the cursor. Said each time, since others may have changed it.
  std::string text = "\0337\033[r\0338";
  const bool has_other_lines = std::exchange(lines_, lines.size()) != lines.size();
  const bool has_other_size = std::exchange(size_, size) != size;
  // Below the cursor stands the block alone, also where a terminal has moved it to fit another size.
  if (has_other_lines || has_other_size) text += "\033[J";
  for (std::size_t line = 0; line < lines.size(); ++line) text += "\033D";
  const int above = size.rows - static_cast<int>(lines.size());
  text += format("\033[{}A\0337\033[1;{}r", lines.size(), above);
  int row = above;
  for (const std::string& line : lines) text += format("\033[{};1H{}\033[K", ++row, line);
  return text + "\0338";
}

}  // namespace levin
