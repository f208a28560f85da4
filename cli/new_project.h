#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::cli {

/// The names that `levin new --template` knows: "classifier", "regression", "language-model", "gan".
std::vector<std::string> template_names();

/// Writes a folder with a project that builds and trains at once: CMakeLists.txt, module, YAML, a test, a README. The folder's
/// name becomes that of the plug-in, and of its classes. Gives what to type next. Throws ConfigError when the template is
/// unknown, the name cannot be that of a class, or the folder is there already; IoError when it cannot be written: nothing is
/// left then.
std::string new_project(const std::filesystem::path& folder, const std::string& template_name);

}  // namespace levin::cli
