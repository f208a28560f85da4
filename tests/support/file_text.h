#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace levin::test {

/// What a file holds, byte for byte. Throws std::runtime_error, naming the file, when it cannot be read.
inline std::string read_text(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  if (!input) throw std::runtime_error("cannot read " + file.string());
  std::ostringstream text;
  text << input.rdbuf();  // as a whole: tests read large files often, and are not optimized
  return std::move(text).str();
}

/// The lines of a text that contain this.
inline std::vector<std::string> lines_with(const std::string& text, std::string_view part) {
  std::istringstream input(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);) {
    if (line.find(part) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace levin::test
