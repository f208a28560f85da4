#pragma once

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace levin {

/// The cores that this process may run on.
inline int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace levin
