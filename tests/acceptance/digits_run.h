#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/file_text.h"
#include "support/program.h"

namespace levin::test {

/// The levin program as built.
std::string levin_program();
/// The same for a Command that is `copied`.
std::string loaded_levin_program();
/// examples/digits/config.yaml
std::string digits_config();
/// Runs `levin ARGUMENTS…`, here and now, with a time limit.
Outcome levin(std::vector<std::string> arguments);
/// Runs `levin COMMAND --config examples/digits/config.yaml --trainer.default_root_dir=FOLDER MORE…`.
Outcome digits(const std::string& command, const std::filesystem::path& folder, const std::vector<std::string>& more = {});
/// The program and arguments of `levin fit` on digits, small and silent, with a ModelCheckpoint of these options (of a YAML
/// map) in FOLDER/kept.
std::vector<std::string> saving_fit(const std::filesystem::path& folder, const std::string& checkpoint_options,
                                    const std::vector<std::string>& more = {});
/// FOLDER/logs/version_N
std::filesystem::path version_folder(const std::filesystem::path& folder, int version = 0);

}  // namespace levin::test
