#include "levin/core/options/build_info.h"

#include "levin/core/base/format.h"
#include "levin/core/options/registry.h"

namespace levin {

std::string build_info() {
  return format("levin {}, LibTorch {}, {}, {}", kVersion, LEVIN_TORCH_VERSION, LEVIN_COMPILER, LEVIN_BUILD_TYPE);
}

}  // namespace levin
