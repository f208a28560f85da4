#include "levin/strategies/failure/children.h"

#include <sys/wait.h>

namespace levin {

BlockedSignals::BlockedSignals(std::initializer_list<int> signals) {
  sigset_t blocked;
  signals.size() == 0 ? sigfillset(&blocked) : sigemptyset(&blocked);
  for (const int signal : signals) sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

void kill_processes(const std::vector<pid_t>& processes) noexcept {
  for (const pid_t process : processes) {
    if (process > 0 && kill(process, SIGKILL) == 0) waitpid(process, nullptr, 0);
  }
}

}  // namespace levin
