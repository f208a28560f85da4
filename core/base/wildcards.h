#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin {

/// Whether a path is a pattern for several files, as a shell has them: "parts/*.csv", "2024-0[1-6].csv",
/// "{a,b}-{000..099}.tar".
bool has_wildcards(const std::filesystem::path& path);
/// What there is of a pattern, in the order of the names. Throws IoError where a folder cannot be read, and
/// ConfigError where some files that braces name are there, and others are not.
std::vector<std::filesystem::path> matching_files(const std::filesystem::path& pattern);

/// What a text with braces stands for, in their order: "{a,b}" for a and b, "{08..11}" for 08, 09, 10 and 11. Other braces
/// stay. Throws ConfigError for more than a million.
std::vector<std::string> brace_expansions(const std::string& text);

}  // namespace levin
