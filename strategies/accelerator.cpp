#include "levin/strategies/accelerator.h"

#include <string>

#include "levin/core/error.h"

namespace levin {

namespace {

bool wants_gpu(const LaunchRequest& request) {
  if (request.accelerator == "gpu" || request.accelerator == "cuda") return true;
  if (request.accelerator == "auto" || request.accelerator == "cpu") return false;
  throw ConfigError("accelerator '" + request.accelerator + "' is unknown: use auto, cpu, gpu or cuda");
}

int cpu_ranks(const LaunchRequest& request) {
  const Devices& devices = request.devices;
  if (devices.is_auto()) return 1;
  if (devices.is_all() || !devices.indices().empty()) {
    throw ConfigError("devices: on the CPU this is the number of processes, such as 4; -1 and indices choose among GPUs");
  }
  if (devices.count() < 1) throw ConfigError("devices: at least 1 is needed; leave it out for one process");
  return devices.count();
}

}  // namespace

int ranks_per_host(const LaunchRequest& request) {
  if (wants_gpu(request)) throw ConfigError("accelerator '" + request.accelerator + "': this levin was built without CUDA");
  return cpu_ranks(request);
}

c10::Device select_device(const LaunchRequest& request, int) {
  ranks_per_host(request);
  return c10::Device(c10::kCPU);
}

}  // namespace levin
