#pragma once

#include <filesystem>

namespace levin::cli {

/// The folder in which CMake finds levin, for -Dlevin_DIR: of an installed levin, or the build folder that the program is in.
std::filesystem::path cmake_folder();
/// Where plug-ins lie that are named without their folder.
std::filesystem::path plugin_folder();

}  // namespace levin::cli
