#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::test {

/// The programs and libraries in a folder, at any depth, that are linked to others.
std::vector<std::filesystem::path> linked_files(const std::filesystem::path& folder);

/// The wrong entries of their loader paths (RUNPATH or RPATH): those that are neither absolute nor relative to the file itself
/// ($ORIGIN), as "FILE: 'ENTRY'".
std::vector<std::string> unsafe_run_paths(const std::vector<std::filesystem::path>& files);

}  // namespace levin::test
