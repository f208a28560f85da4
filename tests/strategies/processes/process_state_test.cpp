#include "levin/strategies/failure/process_state.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

namespace levin::test {
namespace {

pid_t waiting_child() {
  const pid_t child = fork();
  if (child != 0) return child;
  while (true) pause();
}

TEST_CASE("killed processes are gone, and nobody has to wait for them any more") {
  const pid_t first = waiting_child();
  const pid_t second = waiting_child();
  REQUIRE(first > 0);
  REQUIRE(second > 0);
  kill_processes({first, 0, second});
  for (const pid_t child : {first, second}) {
    CHECK(waitpid(child, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
  }
  CHECK(process_state(ProcessId::self()) == ProcessState::kRunning);
}

}  // namespace
}  // namespace levin::test
