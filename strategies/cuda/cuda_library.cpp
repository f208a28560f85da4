#include "levin/strategies/cuda/cuda_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/cuda/cuda_api.h"

namespace levin {

namespace {

constexpr const char* kLibrary = "liblevin_cuda.so";

/// The CUDA library lies beside the library that this code is in.
std::string library_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&has_gpu), &info) == 0 || info.dli_fname == nullptr) return kLibrary;
  return (std::filesystem::path(info.dli_fname).parent_path() / kLibrary).string();
}

const CudaApi* load() {
  const std::string path = library_path();
  if (!std::filesystem::exists(path)) {
    throw ConfigError("a GPU is asked for, but this levin was built without CUDA (" + std::string(kLibrary) +
                      " is missing): build with -DLEVIN_CUDA=ON, or use accelerator: cpu");
  }
  // Global: LibTorch's CUDA code registers itself with the CPU part.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw ConfigError(format("a GPU is asked for, but CUDA cannot be loaded: {}", dlerror()));
  const auto entry = reinterpret_cast<CudaApiEntry>(dlsym(library, "levin_cuda_api"));
  if (entry == nullptr) throw ConfigError(path + " is no CUDA library of this levin");
  return entry();
}

}  // namespace

bool has_gpu() {
  // The second is the device of Windows' Linux subsystem.
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
}

const CudaApi& cuda_api() {
  if (!has_gpu())
    throw ConfigError("a GPU is asked for, but this machine has none (no /dev/nvidiactl); use accelerator: cpu or auto");
  static const CudaApi* const api = load();
  return *api;
}

}  // namespace levin
