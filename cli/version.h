#pragma once

#include <string>

namespace levin::cli {

/// "levin 0.1.0"
std::string version_text();

}  // namespace levin::cli
