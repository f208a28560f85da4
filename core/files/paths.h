#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace levin {

/// True for a name that, below a folder, may stand for something outside of it: it is absolute, or has "..".
inline bool leaves_folder(const std::filesystem::path& name) {
  return name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

/// The path as a person would type it here: relative when it is below the current folder.
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

/// The folder that a file lies in; "." when its path has none.
inline std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace levin
