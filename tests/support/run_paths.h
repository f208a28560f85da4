#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::test {

/// Where the loader looks for the libraries of a program or library (RUNPATH or RPATH), entry by entry; also an empty entry,
/// which is the working folder. Throws std::runtime_error when it is no such file.
std::vector<std::string> run_paths(const std::filesystem::path& file);

/// The programs and libraries below a folder, at any depth, that are linked to others.
std::vector<std::filesystem::path> linked_files(const std::filesystem::path& folder);

/// What is wrong with them: each entry that is neither absolute nor relative to the file itself ($ORIGIN), as "FILE: 'ENTRY'".
std::vector<std::string> unsafe_run_paths(const std::vector<std::filesystem::path>& files);

}  // namespace levin::test
