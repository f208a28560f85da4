#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace levin {

/// A process, told apart from a later one that got the same number.
struct ProcessId {
  pid_t number = 0;
  std::uint64_t start_time = 0;  ///< clock ticks after boot

  static ProcessId self();
};

enum class ProcessState { kRunning, kStopped, kGone };

/// What a process of this host does. A zombie is gone: it will not do anything any more.
ProcessState process_state(const ProcessId& process);

/// While it lives, no signal comes to its thread, or to those that it starts: none of these, or none at all.
class BlockedSignals {
 public:
  explicit BlockedSignals(std::initializer_list<int> signals = {});
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

/// Ends children of this process, and waits until they are gone. 0 stands for none.
void kill_processes(const std::vector<pid_t>& processes) noexcept;

}  // namespace levin
