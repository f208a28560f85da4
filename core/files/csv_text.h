#pragma once

#include <cstdint>
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

/// Appends the shortest text that reads back to the same bits, and that readers which guess a column's type from its first rows
/// take for a float: "1.0", not "1"; "NaN", "inf" and "-inf", which pandas, polars, R and Python's float() all know.
void append_csv_number(std::string& line, double value);
void append_csv_number(std::string& line, std::int64_t value);

/// A whole line of cells that are texts.
std::string csv_line(const std::vector<std::string>& cells);

}  // namespace levin
