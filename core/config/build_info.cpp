#include "levin/core/config/build_info.h"

#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"

namespace levin {

std::string build_info() {
  return format("levin {}, LibTorch {}, {}, {}", kVersion, LEVIN_TORCH_VERSION, LEVIN_COMPILER, LEVIN_BUILD_TYPE);
}

}  // namespace levin
