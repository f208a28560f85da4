#pragma once

#include <filesystem>
#include <string>
#include <vector>

// Which LibTorch the program runs with. This is part of the program itself, which loads LibTorch before liblevin, so that one
// of another version is named before any code of it runs.
namespace levin::cli {

/// The version of the LibTorch in this folder, such as "2.13.0": of a wheel of PyPI (version.py) or an archive of pytorch.org
/// (build-version). Empty without such a file.
std::string libtorch_version(const std::filesystem::path& folder);

/// The folders in which `levin setup` and `make setup` put a LibTorch of this version, the one with CUDA first.
std::vector<std::filesystem::path> libtorch_folders_of_setup(const std::string& version);

/// Loads LibTorch: that of the folder which LEVIN_TORCH names, or else the one that the program's run path leads to, or else
/// the one of `levin setup`. Gives what is wrong in a sentence: there is none, or it has another version than `built_for`.
std::string load_libtorch(const std::string& built_for);

}  // namespace levin::cli
