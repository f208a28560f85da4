#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace levin::test {

/// What a file holds, byte for byte. Throws std::runtime_error, naming the file, when it cannot be read.
inline std::string read_text(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  if (!input) throw std::runtime_error("cannot read " + file.string());
  std::ostringstream text;
  text << input.rdbuf();  // as a whole: tests read large files often, and are not optimized
  return std::move(text).str();
}

}  // namespace levin::test
