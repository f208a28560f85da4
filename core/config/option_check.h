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

/// Throws ConfigError with the value's mark when it is a text with a NUL character: the system ends paths and names there.
/// read_option() asks for every option; what is used before options are read asks itself.
void check_text(const Value& value);

/// Whether a JSON Schema lets null pass.
bool admits_null(const Value& schema);

/// Where a file is looked for that a value names, absolute: in the folder of the value's YAML file, then in the working folder.
std::vector<std::filesystem::path> places_of_file(const std::filesystem::path& written, const Mark& mark);

/// Makes default input files absolute where they are there, so that what is saved names the same files from any folder.
void resolve_defaults(const std::vector<OptionInfo>& options, Value& map);

}  // namespace levin::detail
