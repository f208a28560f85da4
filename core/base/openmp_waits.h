#pragma once

#include <stdlib.h>

namespace levin {

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
