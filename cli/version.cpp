#include "levin/cli/version.h"

#include "levin/core/base/format.h"
#include "levin/core/version.h"

namespace levin::cli {

std::string version_text() { return format("levin {}", kVersion); }

}  // namespace levin::cli
