#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
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

/// A path in `folder` that no other process or thread chooses: ".levin-PID-RANDOM-HOST.tmp".
std::filesystem::path temporary_in(const std::filesystem::path& folder);

/// Of a name as temporary_in() makes it: the host that made it ("" of a version that did not say). Unset for any other name.
std::optional<std::string> host_of_temporary(const std::string& name);

/// This machine as temporary_in() writes it.
std::string temporary_host();

/// The folder that a file lies in; "." when its path has none.
std::filesystem::path folder_of(const std::filesystem::path& file);

}  // namespace levin
