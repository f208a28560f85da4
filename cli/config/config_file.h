#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/config/value.h"

namespace levin::cli {

/// Reads a configuration file for one command, with what it leads to, as maps of which later ones win:
/// - `include: base.yaml`, or a list of files: before the file itself;
/// - `model: model.yaml`: a section that is the name of a YAML file is what that file holds;
/// - `fit:`, `validate:`, `test:`, `predict:`: sections for that command alone, after the others of the file. Those of other
///   commands are left out.
///
/// Files are looked for next to the file that names them, then from the working folder. Throws ConfigError, also when files
/// include one another in a circle.
std::vector<Value> read_config_file(const std::filesystem::path& file, const std::string& command);
/// The same of YAML that is no file, and has a name for errors.
std::vector<Value> read_config_text(const std::string& name, const std::string& text, const std::string& command);

/// `--model=model.yaml`: true when the value given for a section is the name of a YAML file.
bool is_section_file(const std::string& section, const Value& value);
/// What that file holds. Throws ConfigError.
Value read_section_file(const Value& name);

}  // namespace levin::cli
