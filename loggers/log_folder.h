#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace levin {

/// Makes the folder `version_N` in `root`, N one above the highest there is, and gives its path. Two runs that do this at the
/// same moment get two folders. Throws: IoError.
std::filesystem::path make_next_version_folder(const std::filesystem::path& root);
/// The folders `version_N` in `root`, the highest N first.
std::vector<std::filesystem::path> version_folders(const std::filesystem::path& root);
/// Makes a folder and those above it; fine when it exists. Throws: IoError.
void make_folder(const std::filesystem::path& folder);
/// Renames a file to the first free name of `FILE.bak-1`, `FILE.bak-2`, … and gives that name. Throws: IoError.
std::filesystem::path set_aside(const std::filesystem::path& file);
/// Writes a file in one instant; a file of other content that stood there is set aside first. Throws: IoError.
void write_file(const std::filesystem::path& file, std::string_view content);

}  // namespace levin
