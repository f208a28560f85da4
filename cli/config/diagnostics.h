#pragma once

#include <string>
#include <vector>

#include "levin/core/base/error.h"

namespace levin::cli {

/// A configuration error for people to read, a text for each single error, in the order of the files: what() and, below it,
/// the line of the file with a caret under the offending text. After twenty the rest is counted only.
std::vector<std::string> diagnostics(const ConfigError& error);

}  // namespace levin::cli
