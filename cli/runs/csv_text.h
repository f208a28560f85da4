#pragma once

#include <string>
#include <vector>

#include "levin/core/base/text.h"

namespace levin::cli {

/// A line of a CSV file as RFC 4180 wants it: cells with a comma, a quote or a line break stand in quotes.
inline std::string csv_line(const std::vector<std::string>& cells) {
  const auto cell_text = [](const std::string& cell) {
    if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
    return "\"" + join(split(cell, "\""), "\"\"") + "\"";
  };
  return join(cells, ",", cell_text) + "\n";
}

}  // namespace levin::cli
