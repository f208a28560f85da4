#pragma once

#include <signal.h>
#include <sys/types.h>

#include <initializer_list>
#include <vector>

namespace levin {

/// During its lifetime, its thread and those that it starts receive no signals: none of these, or none at all.
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

/// Ends children of this process, and waits until they are gone. 0: none.
void kill_processes(const std::vector<pid_t>& processes) noexcept;

}  // namespace levin
