#pragma once

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <string>

namespace levin {

/// What this host calls itself.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

/// The cores that this process may run on.
inline int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Ends the process at once, when what was written has been passed on: without taking out LibTorch's operators one by one,
/// which takes a tenth of a second although all of them go with the process.
[[noreturn]] inline void end_process(int status) {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  _exit(status);
}

/// For how long an OpenMP thread of LibTorch looks for the others before it sleeps: turns of a loop, some ten microseconds.
/// OpenMP's own default is several milliseconds, in which the thread that is waited for cannot have the core: beside one other
/// busy program a run of two threads took thirty times as long as alone. The longer they look, the faster is a run of small
/// operations that has the machine for itself, and the slower one that has not: with 300, 1,000 and 10,000 turns the digits
/// took 4.3, 3.4 and 2.6 s alone, and 6.9, 8.5 and 15 s beside a busy program.
inline constexpr const char* kOpenMpSpins = "300";
inline constexpr const char* kOpenMpSpinsVariable = "GOMP_SPINCOUNT";

/// True when the user has chosen how OpenMP's threads wait.
inline bool has_openmp_waits() { return getenv("OMP_WAIT_POLICY") != nullptr || getenv(kOpenMpSpinsVariable) != nullptr; }

/// Makes the waits of OpenMP's threads short, unless the user has chosen. Counts only before LibTorch is loaded, as OpenMP
/// reads its environment then. Threading: before others are started.
inline void shorten_openmp_waits() {
  if (!has_openmp_waits()) setenv(kOpenMpSpinsVariable, kOpenMpSpins, /*overwrite=*/0);
}

}  // namespace levin
