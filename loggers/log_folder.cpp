#include "levin/loggers/log_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, const std::error_code& error) {
  throw IoError(format("cannot {} {}: {}", what, path, error.message()));
}

// N of "version_N", or -1 for another name.
std::int64_t version_number(const std::string& name) {
  constexpr std::string_view kPrefix = "version_";
  if (!name.starts_with(kPrefix)) return -1;
  std::int64_t number = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  // A run counts from 0. What is far from there is somebody's text, and has no next number in 64 bits.
  constexpr std::int64_t kHighest = 999'999'999'999;
  return error == std::errc() && stop == end && number >= 0 && number <= kHighest ? number : -1;
}

}  // namespace

fs::path make_next_version_folder(const fs::path& root) {
  make_folder(root);
  const std::vector<fs::path> folders = version_folders(root);
  for (std::int64_t next = folders.empty() ? 0 : version_number(folders.front().filename().string()) + 1;; ++next) {
    const fs::path folder = root / format("version_{}", next);
    // Of two runs, one makes the folder and the other is told that it is there.
    std::error_code error;
    const bool made = fs::create_directory(folder, error);
    if (error) fail("make the folder", folder, error);
    if (made) return folder;
  }
}

std::vector<fs::path> version_folders(const fs::path& root) {
  std::vector<std::pair<std::int64_t, fs::path>> numbered;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    const std::int64_t number = version_number(entry->path().filename().string());
    if (number >= 0) numbered.emplace_back(number, entry->path().lexically_normal());
  }
  std::sort(numbered.rbegin(), numbered.rend());
  std::vector<fs::path> folders;
  for (auto& [number, folder] : numbered) folders.push_back(std::move(folder));
  return folders;
}

void make_folder(const fs::path& folder) {
  // The system ends a path there: what is made would be another folder than what is looked for.
  if (folder.native().find('\0') != std::string::npos)
    throw ConfigError("the path of a folder has a NUL character (\\0) in it");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("make the folder", folder, error);
  if (!fs::is_directory(folder, error)) fail("make the folder", folder, std::make_error_code(std::errc::not_a_directory));
}

fs::path set_aside(const fs::path& file) {
  for (int number = 1;; ++number) {
    fs::path aside = file;
    aside += format(".bak-{}", number);
    if (fs::exists(fs::symlink_status(aside))) continue;
    std::error_code error;
    fs::rename(file, aside, error);
    if (error) fail("rename", file, error);
    return aside;
  }
}

void write_file(const fs::path& file, std::string_view content) {
  if (fs::exists(file)) {
    std::ostringstream before;
    before << std::ifstream(file, std::ios::binary).rdbuf();
    if (before.view() == content) return;
    set_aside(file);
  }
  AtomicFile output(file, AtomicFile::MissingFolder::kRefuse);
  output.write(content);
  output.commit();
}

}  // namespace levin
