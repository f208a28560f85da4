#include "levin/core/base/build_info.h"

#include "levin/core/version.h"

namespace levin {

namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__);
#elif defined(__GNUC__)
  return "g++ " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__);
#else
  return "an unknown compiler";
#endif
}

}  // namespace

std::string build_info() {
  return std::string("levin ") + kVersion + ", LibTorch " LEVIN_TORCH_VERSION ", " + compiler() + ", " LEVIN_BUILD_TYPE;
}

}  // namespace levin
