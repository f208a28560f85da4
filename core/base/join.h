#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace levin {

/// The parts with a separator between each two: "a, b, c". `text_of` gives the text of a part that is none itself.
template <class Range, class Projection = std::identity>
std::string join(const Range& parts, std::string_view separator = ", ", Projection text_of = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& part : parts) {
    if (!is_first) text += separator;
    text += std::invoke(text_of, part);
    is_first = false;
  }
  return text;
}

/// "1 element", "3 elements"; of the nouns that take an s.
inline std::string counted(std::size_t count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun).append(count == 1 ? "" : "s");
}

}  // namespace levin
