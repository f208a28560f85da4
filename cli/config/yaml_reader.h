#pragma once

#include <filesystem>
#include <string>

#include "levin/cli/config/source_text.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// Reads a YAML document into a Value whose nodes know their file, line and column. Anchors, aliases and merge keys (`<<`) are
/// resolved. Throws ConfigError with the position of a syntax error, a key written twice, a key that is not plain text, a tag
/// of the user's own, more than ConfigSize permits, or a second document. A text without content gives null.
Value read_yaml(const SourceText& source);

/// The same for a file.
Value read_yaml_file(const std::filesystem::path& file);

/// Reads a value given on the command line; each of its nodes is marked with `name`. Text that is not YAML and does not begin
/// as a list, map or quoted string (*.csv, @home) is taken as a string.
Value read_yaml_argument(const std::string& name, const std::string& text);

}  // namespace levin::cli
