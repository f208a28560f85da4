#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace levin {

/// True for a name that can lead outside of a folder: it is absolute, or has "..".
inline bool leaves_folder(const std::filesystem::path& name) {
  return name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

/// The path with a leading "~" replaced by $HOME, as by a shell, which does not do it in YAML and after "--option=". "~" is the
/// folder itself, "~/" has a slash at its end, and "~other" stays unchanged.
inline std::filesystem::path expand_home(const std::filesystem::path& path) {
  const char* const home = std::getenv("HOME");
  const std::string& text = path.native();
  if (home == nullptr || path.empty() || *path.begin() != "~") return path;
  if (text == "~") return home;
  const std::size_t rest = text.find_first_not_of('/', 1);
  return std::filesystem::path(home) / (rest == std::string::npos ? "" : text.substr(rest));
}

/// A place by whose name its kind is told: an address without its query ("?download=true").
inline std::filesystem::path without_query(const std::filesystem::path& place) {
  const std::string& text = place.native();
  return text.starts_with("http://") || text.starts_with("https://") ? text.substr(0, text.find('?')) : text;
}

/// The path as a user would type it: relative when it is below the current folder.
inline std::string as_typed(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path below = path.lexically_relative(std::filesystem::current_path(error));
  return error || below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

/// " (working folder: /home/me)" for a relative path, behind an error about it; "" for an absolute one.
inline std::string working_folder_of(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.is_absolute() ? "" : " (working folder: " + std::filesystem::current_path(ignored).string() + ")";
}

/// The folder of a file; "." when its path has none.
inline std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

/// The files of a folder with this extension, the newest first. Empty when it cannot be read.
inline std::vector<std::filesystem::path> newest_files(const std::filesystem::path& folder,
                                                       const std::filesystem::path& extension) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    std::error_code gone;
    const std::filesystem::file_time_type written = entry->last_write_time(gone);
    if (!gone && entry->path().extension() == extension) found.emplace_back(written, entry->path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::filesystem::path> files;
  for (auto& [written, file] : found) files.push_back(std::move(file));
  return files;
}

}  // namespace levin
