#pragma once

#include <filesystem>
#include <string>

namespace levin::mlflow {

/// What MLflowLogger::sync() does.
std::string sync_journals(const std::filesystem::path& run_folder);

}  // namespace levin::mlflow
