#pragma once

#include <stdlib.h>

namespace levin {

/// For how long an OpenMP thread of LibTorch looks for the others before it sleeps: turns of a loop, some tens of microseconds.
/// OpenMP's own default is several milliseconds, in which the thread that is waited for cannot have the core: beside one other
/// busy program a run of two threads took thirty times as long as alone. Long enough for the pauses between two operations.
inline constexpr const char* kOpenMpSpins = "1000";
inline constexpr const char* kOpenMpSpinsVariable = "GOMP_SPINCOUNT";

/// True when the user has chosen how OpenMP's threads wait.
inline bool has_openmp_waits() { return getenv("OMP_WAIT_POLICY") != nullptr || getenv(kOpenMpSpinsVariable) != nullptr; }

/// Makes the waits of OpenMP's threads short, unless the user has chosen. Counts only before LibTorch is loaded, as OpenMP
/// reads its environment then. Threading: before others are started.
inline void shorten_openmp_waits() {
  if (!has_openmp_waits()) setenv(kOpenMpSpinsVariable, kOpenMpSpins, /*overwrite=*/0);
}

}  // namespace levin
