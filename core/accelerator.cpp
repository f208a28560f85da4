#include "levin/core/accelerator.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/run/run_setup.h"

#if defined(__SANITIZE_ADDRESS__)
// Declared in sanitizer/allocator_interface.h, which g++ 12 lacks.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace levin {

namespace {

CurrentDevice current_device;

/// "; visible are 0, 1 and 2 (CUDA_VISIBLE_DEVICES=4,5,6)": the visible devices, and the variable that limits them.
std::string visible_devices(const Accelerator& accelerator) {
  std::vector<int> visible(static_cast<std::size_t>(accelerator.device_count()));
  std::iota(visible.begin(), visible.end(), 0);
  std::string text = visible.empty() ? "; none is visible"
                                     : "; visible are " + join(visible, ", ", [](int index) { return std::to_string(index); });
  const std::string variable = accelerator.visibility_variable();
  const char* chosen = variable.empty() ? nullptr : std::getenv(variable.c_str());
  return chosen == nullptr ? text : text + format(" ({}={})", variable, chosen);
}

[[noreturn]] void throw_no_such_device(const Accelerator& accelerator, int index, const std::string& who_asks = "") {
  throw ConfigError(
      format("devices: {} {}{} does not exist{}", accelerator.device_noun(), index, who_asks, visible_devices(accelerator)));
}

}  // namespace

Accelerator::~Accelerator() = default;

int Accelerator::device_count() const { return c10::impl::VirtualGuardImpl(device_type()).deviceCount(); }

std::vector<int> Accelerator::devices_of_ranks(const Devices& devices) const {
  const int present = device_count();
  std::vector<int> indices = devices.indices();
  if (indices.empty()) {
    const int count = devices.is_all() || devices.is_auto() ? present : devices.count();
    for (int index = 0; index < count; ++index) indices.push_back(index);
  }
  if (indices.empty()) {
    throw ConfigError(format("devices: at least one {} is needed{}", device_noun(), visible_devices(*this)));
  }
  for (const int index : indices) {
    if (index < 0 || index >= present) throw_no_such_device(*this, index);
  }
  return indices;
}

at::Device Accelerator::choose(const Devices& devices, int local_rank) const {
  const std::vector<int> indices = devices.is_auto() ? std::vector{local_rank} : devices_of_ranks(devices);
  const auto place = static_cast<std::size_t>(devices.is_auto() ? 0 : local_rank);
  if (place >= indices.size()) {
    throw ConfigError(format(
        "devices: {} of this host are requested, but this is its rank {} (LOCAL_RANK, from 0): each rank needs its own {}{}",
        indices.size(), local_rank, device_noun(), visible_devices(*this)));
  }
  if (indices[place] < device_count()) return select(indices[place]);
  throw_no_such_device(*this, indices[place], format(" for the rank with LOCAL_RANK={}", local_rank));
}

at::Device Accelerator::select(int index) const {
  const at::Device device(device_type(), static_cast<at::DeviceIndex>(index));
  c10::impl::VirtualGuardImpl(device_type()).setDevice(device);
  return device;
}

void Accelerator::synchronize(const at::Device& device) const {
  c10::impl::VirtualGuardImpl(device_type()).synchronizeDevice(device.index());
}

std::optional<at::Generator> Accelerator::generator(const at::Device& device) const {
  if (device.is_cpu()) return std::nullopt;
  return at::globalContext().defaultGenerator(device);
}

c10::intrusive_ptr<c10d::Backend> Accelerator::make_backend(const c10::intrusive_ptr<c10d::Store>&, int, int, double) const {
  throw MisuseError("accelerator " + name() + " says that gradients travel over '" + backend_name() +
                    "': override Accelerator::make_backend, which makes it");
}

std::optional<at::ScalarType> Accelerator::autocast_type(PrecisionFormat format) const {
  return format == PrecisionFormat::kBfloat16Mixed ? std::optional(at::kBFloat16) : std::nullopt;
}

std::unique_ptr<DeviceGraph> Accelerator::make_graph(const at::Device&, const DeviceGraph*) const { return nullptr; }

at::TensorOptions host_options(const at::Tensor& on_device) {
  const bool can_pin = at::accelerator::getAccelerator() == on_device.device().type();
  return on_device.options().device(at::kCPU).pinned_memory(can_pin);
}

void set_current_device(CurrentDevice device) { current_device = std::move(device); }

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  memory.resident = pages * sysconf(_SC_PAGESIZE);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  // The kernel counts it separately, and not exactly.
  memory.peak = std::max<std::int64_t>(memory.resident, std::int64_t{usage.ru_maxrss} * 1024);
#if defined(__SANITIZE_ADDRESS__)
  memory.in_use = static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 heap = mallinfo2();
  memory.in_use = static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
#endif
  return memory;
}

void clear_memory() {
  if (current_device.accelerator) current_device.accelerator->clear_memory(current_device.device);
  malloc_trim(0);
}

}  // namespace levin
