#include "levin/strategies/devices/cpu_accelerator.h"

#include <ATen/Parallel.h>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

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

}  // namespace levin
