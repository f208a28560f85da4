#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "levin/core/config/options.h"

namespace levin {

/// The limit of errors of one configuration; a hostile one may have a million.
inline constexpr std::size_t kMostConfigErrors = 100;

}  // namespace levin

namespace levin::detail {

/// Throws ConfigError with the value's mark for a text with a NUL character, where the system would end paths and names.
/// read_option() calls it for every option; code that uses values earlier calls it itself.
void check_text(const Value& value);

/// True when a JSON Schema accepts null.
bool admits_null(const Value& schema);

/// The absolute paths at which a value's file is searched: in the folder of the value's YAML file, then in the working folder.
std::vector<std::filesystem::path> places_of_file(const std::filesystem::path& written, const Mark& mark);

/// Makes existing default input files absolute, so that saved options name the same files from any folder.
void resolve_defaults(const std::vector<OptionInfo>& options, Value& map);

}  // namespace levin::detail
