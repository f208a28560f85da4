#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/console/terminal.h"

namespace levin {

/// Lines at the bottom of a terminal, above which all other output scrolls: they set the terminal's scrolling region, which
/// even a VT100 has. Makes texts only; the caller writes each with one call.
class LiveBlock {
 public:
  /// Removes the block; the cursor stays at the end of the text above.
  static constexpr std::string_view kRemove = "\0337\033[r\0338\033[J";

  /// Replaces the lines. They are no wider than the terminal, and fewer than its rows.
  std::string show(const std::vector<std::string>& lines, const TerminalSize& size);

 private:
  TerminalSize size_;
  std::size_t lines_ = 0;
};

}  // namespace levin
