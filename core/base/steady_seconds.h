#pragma once

#include <chrono>

namespace levin {

/// Seconds of a clock that never goes back, from some time on.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace levin
