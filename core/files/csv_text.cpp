#include "levin/core/files/csv_text.h"

#include <cmath>

#include "levin/core/base/text.h"

namespace levin {

void append_csv_number(std::string& line, double value) {
  if (std::isnan(value)) {
    line += "NaN";
  } else {
    append_float(line, value);
  }
}

void append_csv_number(std::string& line, std::int64_t value) { line += std::to_string(value); }

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) line += ',';
    append_csv_text(line, cell);
  }
  return line + '\n';
}

}  // namespace levin
