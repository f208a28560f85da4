#include "support/run_paths.h"

#include <fstream>
#include <regex>
#include <stdexcept>

#include "support/program.h"

namespace levin::test {

namespace fs = std::filesystem;

namespace {

/// A program or shared library for the loader, by the ELF header's type.
bool is_linked(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string header(18, '\0');
  stream.read(header.data(), static_cast<std::streamsize>(header.size()));
  constexpr char kExecutable = 2;
  constexpr char kShared = 3;
  return stream &&
         header.starts_with(
             "\x7f"
             "ELF") &&
         (header[16] == kExecutable || header[16] == kShared);
}

}  // namespace

std::vector<std::string> run_paths(const fs::path& file) {
  const Outcome outcome =
      run({.arguments = {"readelf", "--dynamic", "--wide", file.string()}, .environment = {{"LC_ALL", "C"}}});
  if (!outcome.ok()) throw std::runtime_error("readelf of " + file.string() + ": " + outcome.text());
  std::vector<std::string> entries;
  static const std::regex kPath("\\((?:RUNPATH|RPATH)\\)[^\\[]*\\[([^\\]]*)\\]");
  std::smatch match;
  if (!std::regex_search(outcome.out, match, kPath)) return entries;
  const std::string text = match[1].str() + ":";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find(':', begin);
    entries.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

std::vector<fs::path> linked_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && !entry.is_symlink() && is_linked(entry.path())) files.push_back(entry.path());
  }
  return files;
}

std::vector<std::string> unsafe_run_paths(const std::vector<fs::path>& files) {
  std::vector<std::string> found;
  for (const fs::path& file : files) {
    for (const std::string& entry : run_paths(file)) {
      if (!entry.starts_with('/') && !entry.starts_with("$ORIGIN")) found.push_back(file.string() + ": '" + entry + "'");
    }
  }
  return found;
}

}  // namespace levin::test
