#pragma once

#include <sys/types.h>

#include <cstdint>

namespace levin {

/// A process of this host, distinguished from a later one with the same number.
struct ProcessId {
  pid_t number = 0;
  std::uint64_t start_time = 0;  ///< clock ticks after boot

  static ProcessId self();
};

enum class ProcessState { kRunning, kStopped, kGone };

/// The state of a process. A zombie is gone: it will do nothing more.
ProcessState process_state(const ProcessId& process);

}  // namespace levin
