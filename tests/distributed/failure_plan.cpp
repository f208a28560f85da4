#include "distributed/failure_plan.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace levin::test {

namespace {

[[noreturn]] void loop_for_ever() {
  // The naps leave the core to the other ranks.
  while (true) usleep(1000);
}

void write_where_nothing_is() {
  volatile std::uintptr_t address = 16;
  *reinterpret_cast<volatile int*>(address) = 1;
}

void allocate_too_much() {
  // Memory that nobody looks at is one that the compiler may leave out.
  static std::vector<double> values;
  values.resize(std::size_t{1} << 50);
}

}  // namespace

void FailurePlan::write_time_stamp() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::filesystem::path temporary = folder / ("failed_at." + std::to_string(getpid()));
  std::ofstream(temporary) << std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec << "\n"
                           << (describe ? describe() : "") << "\n";
  std::filesystem::rename(temporary, folder / "failed_at");
}

void FailurePlan::reach(const std::string& reached, bool comes_each_epoch) {
  if (reached != place || !is_own_turn() || (comes_each_epoch && epoch == 0) || done_.exchange(true)) return;
  write_time_stamp();
  fail_in(manner, own_rank);
}

void fail_in(const std::string& manner, int rank) {
  if (manner == "throw") throw std::runtime_error("the sensor returned garbage");
  if (manner == "throw_own") throw std::runtime_error("sensor " + std::to_string(rank) + " returned garbage");
  if (manner == "throw_gloo") throw std::runtime_error("gloo is my dog: Connection closed by peer");
  if (manner == "throw_object") throw 42;
  if (manner == "memory") allocate_too_much();
  if (manner == "abort") std::abort();
  if (manner == "segfault") write_where_nothing_is();
  if (manner == "exit") _exit(0);
  if (manner == "sigkill") raise(SIGKILL);
  if (manner == "sigstop") raise(SIGSTOP);
  if (manner == "loop") loop_for_ever();
  if (manner == "sigterm") raise(SIGTERM);
}

}  // namespace levin::test
