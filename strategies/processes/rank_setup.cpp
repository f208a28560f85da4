#include "levin/strategies/processes/rank_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "levin/core/base/format.h"
#include "levin/core/base/openmp_waits.h"
#include "levin/core/base/usable_cores.h"

namespace levin {

std::vector<std::string> rank_environment(int rank, int ranks, pid_t launcher, const InheritedFiles& files) {
  std::vector<std::string> changes = {format("RANK={}", rank),
                                      format("LOCAL_RANK={}", rank),
                                      format("WORLD_SIZE={}", ranks),
                                      format("LOCAL_WORLD_SIZE={}", ranks),
                                      "GROUP_RANK=0",
                                      format("LEVIN_LAUNCHED={}", launcher),
                                      format("LEVIN_SHM_FD={}", files.segment),
                                      format("LEVIN_STORE_FD={}", files.store)};
  if (files.inputs) changes.push_back(format("LEVIN_INPUTS_FD={}", *files.inputs));
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    changes.push_back(format("OMP_NUM_THREADS={}", std::max(1, usable_cores() / ranks)));
  }
  if (!has_openmp_waits()) changes.push_back(format("{}={}", kOpenMpSpinsVariable, kOpenMpSpins));
  return changes;
}

bool tie_to_launcher(pid_t launcher) noexcept {
  // When it died before this call, the parent has changed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) return false;
  // A group of its own: Ctrl-C in the terminal reaches the launcher alone, which passes it on, once.
  setpgid(0, 0);
  // A background group must not read from the terminal: it would be stopped.
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  return true;
}

}  // namespace levin
