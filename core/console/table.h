#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// The text with every control character (line breaks, tabs, escapes) made a space, so that it cannot move the cursor.
std::string one_line(std::string_view text);

enum class Align { kLeft, kRight };

/// A table as text: a header, a rule, one line a row; columns are as wide as their widest cell and parted by " | ".
/// A cell's line breaks and other control characters become spaces, missing cells are empty.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<Align> align;  ///< by column; left where missing

  /// Without a line break at the end, no spaces at the ends of lines.
  std::string str() const;
};

}  // namespace levin
