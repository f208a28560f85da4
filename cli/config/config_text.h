#pragma once

#include <filesystem>
#include <string>

#include "levin/core/config/value.h"

namespace levin::cli {

/// Saves the complete configuration of a run as `config.yaml` in its folder, and gives the file. An equal one stays unchanged;
/// another one, of an earlier run in the same folder, is saved as `config_1.yaml`, `config_2.yaml`, … Throws IoError when it
/// cannot be written. Ranks: 0.
std::filesystem::path save_config(const Value& config, const std::filesystem::path& folder);

/// The same as `--print_config` prints it: with a comment above each option.
std::string printed_config(const Value& config);

}  // namespace levin::cli
