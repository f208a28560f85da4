#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/console/terminal.h"

namespace levin {

/// Lines that stand at the bottom of a terminal, while all else, whoever writes it, scrolls above them: the part of the screen
/// that scrolls ends there, as a VT100 has it already. Makes texts; who writes them, each with one call, is not its business.
class LiveBlock {
 public:
  /// Takes the block away, wherever it stands; the cursor stays at the end of what was written above.
  static constexpr std::string_view kRemove = "\0337\033[r\0338\033[J";

  /// Shows these lines, in place of the ones before. They are no wider than the terminal, and fewer than its rows.
  std::string show(const std::vector<std::string>& lines, const TerminalSize& size);

 private:
  TerminalSize size_;
  std::size_t lines_ = 0;
};

}  // namespace levin
