#include "levin/core/memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "levin/core/accelerator.h"
#include "levin/core/run/caching_cpu_allocator.h"
#include "levin/core/run/current_device.h"

#if defined(__SANITIZE_ADDRESS__)
// Declared in sanitizer/allocator_interface.h, which g++ 12 does not bring along.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace levin {
namespace {

CurrentDevice current_device;

}  // namespace

void set_current_device(CurrentDevice device) { current_device = std::move(device); }

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  memory.resident = pages * sysconf(_SC_PAGESIZE);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  // The kernel counts it apart, and not to the page.
  memory.peak = std::max<std::int64_t>(memory.resident, std::int64_t{usage.ru_maxrss} * 1024);
#if defined(__SANITIZE_ADDRESS__)
  memory.in_use = static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 heap = mallinfo2();
  const std::size_t kept = CachingCpuAllocator::kept_bytes();
  memory.in_use = static_cast<std::int64_t>(heap.uordblks + heap.hblkhd) - static_cast<std::int64_t>(kept);
#endif
  return memory;
}

void clear_memory() {
  if (current_device.accelerator) current_device.accelerator->clear_memory(current_device.device);
  CachingCpuAllocator::clear_this_thread();
  malloc_trim(0);
}

}  // namespace levin
