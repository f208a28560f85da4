#include "levin/core/base/build_info.h"

#include "levin/core/base/format.h"
#include "levin/core/version.h"

namespace levin {

namespace {

std::string compiler() {
#if defined(__clang__)
  return format("clang {}.{}", __clang_major__, __clang_minor__);
#elif defined(__GNUC__)
  return format("g++ {}.{}", __GNUC__, __GNUC_MINOR__);
#else
  return "an unknown compiler";
#endif
}

}  // namespace

std::string build_info() {
  return format("levin {}, LibTorch {}, {}, {}", kVersion, LEVIN_TORCH_VERSION, compiler(), LEVIN_BUILD_TYPE);
}

}  // namespace levin
