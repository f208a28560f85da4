#include "support/matrix_report.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace levin::test {

namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

std::string MatrixReport::Cell::str() const {
  const bool good = passed == runs;
  std::string text = good ? "yes" : "no";
  if (runs > 1) text = std::to_string(passed) + " of " + std::to_string(runs);
  return good ? text : "**" + text + "**";
}

bool MatrixReport::whole() {
  const char* asked = std::getenv("LEVIN_MATRIX");
  return asked != nullptr && std::string(asked) == "all";
}

void MatrixReport::add_column(const std::string& column) { add_once(columns_, column); }

void MatrixReport::add(const std::string& row, const std::string& column, bool passed) {
  add_once(rows_, row);
  add_once(columns_, column);
  Cell& cell = cells_[{row, column}];
  ++cell.runs;
  cell.passed += passed ? 1 : 0;
}

std::string MatrixReport::table() const {
  std::string text = "| " + corner_ + " |";
  for (const std::string& column : columns_) text += " " + column + " |";
  text += "\n| --- |";
  for (std::size_t index = 0; index < columns_.size(); ++index) text += " --- |";
  for (const std::string& row : rows_) {
    text += "\n| " + row + " |";
    for (const std::string& column : columns_) {
      const auto found = cells_.find({row, column});
      if (found == cells_.end()) {
        text += " – |";
      } else {
        text += " " + found->second.str() + " |";
      }
    }
  }
  return text + "\n";
}

void MatrixReport::write() const {
  const std::string file = LEVIN_BINARY_DIR "/deadlock-matrix.md";
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  stream.close();
  const std::string begin = "\n## " + title_ + "\n\n";
  const std::size_t from = std::min(text.find(begin), text.size());
  const std::size_t to = std::min(text.find("\n## ", from + 1), text.size());
  text.replace(from, to - from, begin + table());
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace levin::test
