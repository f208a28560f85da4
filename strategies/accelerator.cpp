#include "levin/strategies/accelerator.h"

#include <string>
#include <vector>

#include "levin/core/error.h"
#include "levin/strategies/cuda/cuda_api.h"
#include "levin/strategies/cuda/cuda_library.h"

namespace levin {

namespace {

int cpu_ranks(const Devices& devices) {
  if (devices.is_auto()) return 1;
  if (devices.is_all() || !devices.indices().empty()) {
    throw ConfigError("devices: on the CPU this is the number of processes, such as 4; -1 and indices choose among GPUs");
  }
  if (devices.count() < 1) throw ConfigError("devices: at least 1 is needed; leave it out for one process");
  return devices.count();
}

/// The GPUs of a request, by local rank. `auto` is one.
std::vector<int> gpu_indices(const Devices& devices) {
  const int present = cuda_api().device_count();
  std::vector<int> indices = devices.indices();
  if (indices.empty()) {
    const int count = devices.is_all() ? present : (devices.is_auto() ? 1 : devices.count());
    for (int index = 0; index < count; ++index) indices.push_back(index);
  }
  if (indices.empty()) throw ConfigError("devices: at least one GPU is needed");
  for (const int index : indices) {
    if (index >= 0 && index < present) continue;
    throw ConfigError("devices: GPU " + std::to_string(index) + " does not exist; this host has " + std::to_string(present));
  }
  return indices;
}

}  // namespace

bool wants_gpu(const LaunchRequest& request) {
  if (request.accelerator == "gpu" || request.accelerator == "cuda") return true;
  if (request.accelerator == "auto" || request.accelerator == "cpu") return false;
  throw ConfigError("accelerator '" + request.accelerator + "' is unknown: use auto, cpu, gpu or cuda");
}

int ranks_per_host(const LaunchRequest& request) {
  return wants_gpu(request) ? static_cast<int>(gpu_indices(request.devices).size()) : cpu_ranks(request.devices);
}

c10::Device select_device(const LaunchRequest& request, int local_rank) {
  if (!wants_gpu(request)) return c10::Device(c10::kCPU);
  std::vector<int> indices = gpu_indices(request.devices);
  // Under another launcher each rank of a host has a GPU of its own, whether devices says so or not.
  const int index = request.devices.is_auto() ? local_rank : indices.at(static_cast<std::size_t>(local_rank));
  cuda_api().select_device(index);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

}  // namespace levin
