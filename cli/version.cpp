#include "levin/cli/version.h"

#include "levin/core/version.h"

namespace levin::cli {

std::string version_text() { return std::string("levin ") + kVersion; }

}  // namespace levin::cli
