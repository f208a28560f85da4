#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// Appends a cell as RFC 4180 wants it: quoted when it holds a comma, a quote or a line break.
inline void append_csv_text(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

/// A whole line of such cells.
inline std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) line += ',';
    append_csv_text(line, cell);
  }
  return line + '\n';
}

}  // namespace levin
