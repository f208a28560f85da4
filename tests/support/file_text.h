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

/// The contents of a file, byte for byte. Throws std::runtime_error, naming the file, when it cannot be read.
inline std::string read_text(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  if (!input) throw std::runtime_error("cannot read " + file.string());
  std::ostringstream text;
  text << input.rdbuf();  // at once: tests read large files often, and are not optimized
  return std::move(text).str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream input(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

/// The lines of a text that contain this.
inline std::vector<std::string> lines_with(const std::string& text, std::string_view part) {
  std::vector<std::string> lines = lines_of(text);
  std::erase_if(lines, [&](const std::string& line) { return line.find(part) == std::string::npos; });
  return lines;
}

/// The words of a text, separated by blanks.
inline std::vector<std::string> words_in(const std::string& text) {
  std::istringstream input(text);
  std::vector<std::string> words;
  for (std::string word; input >> word;) words.push_back(word);
  return words;
}

/// How often a text contains a part.
inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

}  // namespace levin::test
