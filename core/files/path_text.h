#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace levin {

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

}  // namespace levin
