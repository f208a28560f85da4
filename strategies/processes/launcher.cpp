#include "levin/strategies/processes/launcher.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "levin/core/console/standard_descriptors.h"
#include "levin/strategies/processes/rank_process.h"
#include "levin/strategies/processes/signal_pipe.h"
#include "levin/strategies/processes/supervisor.h"

namespace levin {

void launch_ranks(int ranks) {
  // The memory and sockets that ranks inherit must not have the numbers that messages are written to.
  open_standard_descriptors();
  // What the program has printed so far is printed once, before anything of the ranks.
  std::fflush(nullptr);
  SignalPipe signals;
  Supervisor supervisor(start_ranks(ranks));
  while (supervisor.is_running()) {
    for (const int signal : signals.wait(supervisor.time_to_look_again())) supervisor.pass_on(signal);
    supervisor.look();
  }
  const int status = supervisor.finish();
  std::fflush(nullptr);
  // Not exit(): the objects of the user's program belong to the ranks, and were never meant to be used here.
  _exit(status);
}

}  // namespace levin
