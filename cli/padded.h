#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace levin::cli {

/// A text with blanks behind it, as a cell of a column so wide.
inline std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace levin::cli
