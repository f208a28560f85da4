#include "levin/strategies/devices/accelerators.h"

#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <filesystem>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/optional_library.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"

namespace levin {

LEVIN_REGISTER_(Accelerator, AutoAccelerator, "auto", "A GPU where there is one, else the CPU");
LEVIN_REGISTER_(Accelerator, CpuAccelerator, "cpu", "The CPU, which ranks share");
LEVIN_REGISTER_(Accelerator, CudaAccelerator, "cuda", "NVIDIA's GPUs, one for each rank");
LEVIN_REGISTER_(Accelerator, CudaAccelerator, "gpu", "Another name of cuda");

namespace {

constexpr const char* kLibrary = "liblevin_cuda.so";

const CudaApi* load() {
  const std::string path = path_beside(reinterpret_cast<const void*>(&has_gpu), kLibrary);
  if (!std::filesystem::exists(path)) {
    throw ConfigError("this levin was built without CUDA (" + std::string(kLibrary) +
                      " is missing): build it with LEVIN_CUDA=ON, or use accelerator: cpu");
  }
  // LibTorch may lie elsewhere than where the library looks for it: LEVIN_TORCH. Where this one is missing, the next says so.
  dlopen(path_beside(reinterpret_cast<const void*>(&at::get_num_threads), "libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  // Global: LibTorch's CUDA code registers itself with the CPU part.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw ConfigError(format("CUDA cannot be loaded: {}; use accelerator: cpu to do without", dlerror()));
  const auto entry = reinterpret_cast<CudaApiEntry>(dlsym(library, "levin_cuda_api"));
  if (entry == nullptr) throw ConfigError(path + " is not the CUDA library of this levin");
  return entry();
}

constexpr const char* kHooks = "CUDAHooks";

/// LibTorch asks only once in a process whether there is CUDA, and torch::manual_seed() asks too: so that a GPU can be used
/// later, CUDA is loaded when it asks. This takes a second on a machine with a GPU, even if the program then uses none.
std::unique_ptr<at::CUDAHooksInterface> make_cuda_hooks(at::CUDAHooksArgs arguments) {
  try {
    if (has_gpu()) {
      cuda_api();  // registers LibTorch's own, replacing this function
      return at::CUDAHooksRegistry()->Create(kHooks, arguments);
    }
  } catch (const ConfigError&) {
    // A request for a GPU gets the error.
  }
  return std::make_unique<at::CUDAHooksInterface>();
}

[[maybe_unused]] const bool makes_cuda_hooks = [] {
  // A process that has loaded CUDA by itself knows it.
  if (at::CUDAHooksRegistry()->Has(kHooks)) return false;
  at::CUDAHooksRegistry()->Register(kHooks, make_cuda_hooks, c10::REGISTRY_FALLBACK);
  return true;
}();

}  // namespace

bool has_gpu() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && *visible == '\0') return false;
  // The second is the device of Windows' Linux subsystem.
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
}

const CudaApi& cuda_api() {
  if (!has_gpu())
    throw ConfigError(
        "a GPU is requested, but this machine has none (no /dev/nvidiactl), or CUDA_VISIBLE_DEVICES is empty; use accelerator: "
        "cpu or auto");
  static const CudaApi* const api = load();
  return *api;
}

std::shared_ptr<Accelerator> AutoAccelerator::resolve() {
  if (chosen_) return chosen_;
  chosen_ = std::make_shared<CpuAccelerator>();
  if (!has_gpu()) return chosen_;
  try {
    auto gpus = std::make_shared<CudaAccelerator>();
    if (gpus->device_count() > 0) chosen_ = std::move(gpus);
  } catch (const std::exception& error) {
    Console::instance().warn("accelerator: auto uses the CPU, although this machine has a GPU: " + error_text(error));
  }
  return chosen_;
}

std::string CpuAccelerator::describe(const at::Device&) const {
  return format("cpu ({})", counted(static_cast<std::size_t>(at::get_num_threads()), "thread"));
}

std::vector<int> CpuAccelerator::devices_of_ranks(const Devices& devices) const {
  if (devices.is_auto()) return {0};
  if (devices.is_all() || !devices.indices().empty()) {
    throw ConfigError("devices: on the CPU this is the number of processes, such as 4; -1 and indices choose among GPUs");
  }
  if (devices.count() < 1) throw ConfigError("devices: at least 1 is needed; leave it out for one process");
  return std::vector<int>(static_cast<std::size_t>(devices.count()));
}

at::Device CpuAccelerator::choose(const Devices&, int) const { return at::kCPU; }

int CudaAccelerator::device_count() const {
  // From here on LibTorch knows GPUs, and so do the accelerator's defaults.
  cuda_api();
  return Accelerator::device_count();
}

c10::intrusive_ptr<c10d::Backend> CudaAccelerator::make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                                int size, double timeout_seconds) const {
  return cuda_api().make_nccl_backend(store, rank, size, timeout_seconds);
}

}  // namespace levin
