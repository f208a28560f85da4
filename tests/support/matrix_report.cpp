#include "support/matrix_report.h"

#include <algorithm>
#include <fstream>

#include "support/file_text.h"

namespace levin::test {

void MatrixReport::add(const std::string& row, const std::string& column, bool passed) {
  for (const auto& [names, name] : {std::pair(&rows_, row), std::pair(&columns_, column)}) {
    if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
  }
  Runs& runs = cells_[{row, column}];
  ++runs.all;
  runs.passed += passed ? 1 : 0;
}

void MatrixReport::write() const {
  std::string heading = "| " + corner_ + " |";
  std::string line = "\n| --- |";
  for (const std::string& column : columns_) {
    heading += " " + column + " |";
    line += " --- |";
  }
  const std::string begin = "\n## " + title_ + "\n\n";
  std::string section = begin + heading + line;
  for (const std::string& row : rows_) {
    section += "\n| " + row + " |";
    for (const std::string& column : columns_) {
      const auto cell = cells_.find({row, column});
      section += cell == cells_.end()
                     ? " – |"
                     : " " + std::to_string(cell->second.passed) + " of " + std::to_string(cell->second.all) + " |";
    }
  }
  const std::string file = LEVIN_BINARY_DIR "/deadlock-matrix.md";
  std::string text = std::ifstream(file) ? read_text(file) : "";
  const std::size_t from = std::min(text.find(begin), text.size());
  const std::size_t to = std::min(text.find("\n## ", from + 1), text.size());
  std::ofstream(file, std::ios::binary) << text.replace(from, to - from, section + "\n");
}

}  // namespace levin::test
