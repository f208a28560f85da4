#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::test {

/// The programs and libraries below a folder, at any depth, that are linked to others.
std::vector<std::filesystem::path> linked_files(const std::filesystem::path& folder);

/// What is wrong with where the loader looks for their libraries (RUNPATH or RPATH): each entry that is neither absolute nor
/// relative to the file itself ($ORIGIN), as "FILE: 'ENTRY'".
std::vector<std::string> unsafe_run_paths(const std::vector<std::filesystem::path>& files);

}  // namespace levin::test
