#include "distributed/fail_in.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace levin::test {

void fail_in(const std::string& manner, int rank) {
  if (manner == "throw") throw std::runtime_error("the sensor returned garbage");
  if (manner == "throw_own") throw std::runtime_error("sensor " + std::to_string(rank) + " returned garbage");
  if (manner == "throw_gloo") throw std::runtime_error("gloo is my dog: Connection closed by peer");
  if (manner == "throw_object") throw 42;
  if (manner == "memory") {
    // The compiler may omit memory that is not read.
    static std::vector<double> values;
    values.resize(std::size_t{1} << 50);
  }
  if (manner == "abort") std::abort();
  if (manner == "segfault") {
    volatile std::uintptr_t nowhere = 16;
    *reinterpret_cast<volatile int*>(nowhere) = 1;
  }
  if (manner == "exit") _exit(0);
  if (manner == "sigkill") raise(SIGKILL);
  if (manner == "sigstop") raise(SIGSTOP);
  while (manner == "loop") usleep(1000);  // The pauses leave the core to the other ranks.
  if (manner == "sigterm") raise(SIGTERM);
  if (manner == "sigusr1") raise(SIGUSR1);
  if (manner == "sigusr2") raise(SIGUSR2);
}

}  // namespace levin::test
