#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// Appends a cell in the form of RFC 4180: quoted when it holds a comma, a quote or a line break.
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

/// Appends the shortest text that reads back to the same bits, and that readers take for a float even if they guess a column's
/// type from its first rows: "1.0", not "1"; "NaN", "inf" and "-inf", which pandas, polars, R and Python's float() all read.
void append_csv_number(std::string& line, double value);
void append_csv_number(std::string& line, std::int64_t value);

/// A whole line of text cells.
std::string csv_line(const std::vector<std::string>& cells);

}  // namespace levin
