#include "support/run_paths.h"

#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
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

/// Where the loader looks for the libraries of a program or library (RUNPATH or RPATH), "a:b:c"; empty if unset.
std::optional<std::string> run_path(const fs::path& file) {
  const Outcome outcome =
      run({.arguments = {"readelf", "--dynamic", "--wide", file.string()}, .environment = {{"LC_ALL", "C"}}});
  if (!outcome.ok()) throw std::runtime_error("readelf of " + file.string() + ": " + outcome.text());
  static const std::regex kPath("\\((?:RUNPATH|RPATH)\\)[^\\[]*\\[([^\\]]*)\\]");
  std::smatch match;
  return std::regex_search(outcome.out, match, kPath) ? std::optional(match[1].str()) : std::nullopt;
}

}  // namespace

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
    // An empty entry is the working folder.
    std::istringstream entries(run_path(file).value_or("$ORIGIN") + ":");
    for (std::string entry; std::getline(entries, entry, ':');) {
      if (!entry.starts_with('/') && !entry.starts_with("$ORIGIN")) found.push_back(file.string() + ": '" + entry + "'");
    }
  }
  return found;
}

}  // namespace levin::test
