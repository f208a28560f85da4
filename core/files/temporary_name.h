#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace levin {

/// A path in `folder` that no other process or thread chooses: ".levin-PID-RANDOM-HOST.tmp".
std::filesystem::path temporary_in(const std::filesystem::path& folder);

/// Of a name as temporary_in() makes it: the host that made it ("" of a version that did not say). Unset for any other name.
std::optional<std::string> host_of_temporary(std::string_view name);

/// This machine as temporary_in() writes it.
std::string temporary_host();

/// The folder that a file lies in; "." when its path has none.
std::filesystem::path folder_of(const std::filesystem::path& file);

}  // namespace levin
