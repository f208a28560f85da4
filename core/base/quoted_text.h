#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace levin {

/// The text as a terminal may show it: characters that control one, other than line breaks and tabs, and bytes that are no
/// UTF-8 become "\x1b" and the like.
std::string printable(std::string_view text);

/// A name or value in an error message: printable, on one line, in single quotes, and cut with "…" after `longest` bytes.
std::string quoted_text(std::string_view text, std::size_t longest = 100);

}  // namespace levin
