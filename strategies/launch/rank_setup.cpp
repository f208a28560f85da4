#include "levin/strategies/launch/rank_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"

namespace levin {

namespace {

std::string with_number(const char* name, const std::optional<int>& number) {
  return number ? format("{}={}", name, *number) : name;
}

}  // namespace

std::vector<std::string> rank_environment(const RankPlace& place, pid_t launcher, const InheritedFiles& files) {
  std::vector<std::string> changes = {format("RANK={}", place.rank()),
                                      format("LOCAL_RANK={}", place.local_rank),
                                      format("WORLD_SIZE={}", place.world_size()),
                                      format("LOCAL_WORLD_SIZE={}", place.local_ranks),
                                      format("GROUP_RANK={}", place.host),
                                      format("LEVIN_LAUNCHED={}", launcher),
                                      format("LEVIN_DEVICE={}", place.device),
                                      format("LEVIN_RESTARTS={}", place.restarts),
                                      format("LEVIN_MAX_RESTARTS={}", place.max_restarts),
                                      format("LEVIN_LAUNCH_CALL={}", place.call),
                                      format("LEVIN_SHM_FD={}", files.segment),
                                      with_number("LEVIN_STORE_FD", files.store),
                                      with_number("LEVIN_NOTES_FD", files.notes),
                                      with_number("LEVIN_INPUTS_FD", files.inputs)};
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    changes.push_back(format("OMP_NUM_THREADS={}", std::max(1, usable_cores() / place.local_ranks)));
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
  if (nothing >= 0 && nothing != STDIN_FILENO) {
    dup2(nothing, STDIN_FILENO);
    close(nothing);
  }
  return true;
}

}  // namespace levin
