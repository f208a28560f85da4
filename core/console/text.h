#pragma once

#include <string>
#include <string_view>

namespace levin {

/// The text with every control character (line breaks, tabs, escapes) made a space, so that it cannot move the cursor.
std::string one_line(std::string_view text);

}  // namespace levin
