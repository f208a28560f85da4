#include "levin/core/base/build_info.h"

#include "levin/core/plugin_stamp.h"

namespace levin {

std::string build_info() {
  return std::string("levin ") + kVersion + ", LibTorch " LEVIN_TORCH_VERSION ", " LEVIN_COMPILER ", " LEVIN_BUILD_TYPE;
}

}  // namespace levin
