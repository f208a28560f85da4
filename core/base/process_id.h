#pragma once

#include <sys/types.h>

#include <cstdint>

namespace levin {

/// A process of this host, told apart from a later one that got the same number.
struct ProcessId {
  pid_t number = 0;
  std::uint64_t start_time = 0;  ///< clock ticks after boot

  static ProcessId self();
};

enum class ProcessState { kRunning, kStopped, kGone };

/// What a process does. A zombie is gone: it will not do anything any more.
ProcessState process_state(const ProcessId& process);

}  // namespace levin
