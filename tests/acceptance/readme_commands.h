#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::test {

/// The text of a document's ```sh blocks.
std::vector<std::string> shell_blocks(const std::filesystem::path& document);

/// Runs commands as from the repository's root, one after another in one folder, and gives what each printed. Those that run no
/// built program are left out; one that fails fails the test.
std::vector<std::string> run_from_root(const std::vector<std::string>& commands, const std::filesystem::path& folder);

}  // namespace levin::test
