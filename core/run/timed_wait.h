#pragma once

#include "levin/core/base/steady_seconds.h"
#include "levin/core/profiler.h"

namespace levin {

/// Tells a profiler, if there is one, how long this rank was in a meeting of all, when it has come to its end.
class [[nodiscard]] TimedWait {
 public:
  TimedWait(Profiler* profiler, WaitReason kind) : profiler_(profiler), kind_(kind) {
    if (profiler_ != nullptr) arrived_ = steady_seconds();
  }
  ~TimedWait() {
    try {
      if (profiler_ != nullptr) profiler_->waited(kind_, arrived_, steady_seconds());
    } catch (...) {  // it must not throw, and here it could only end the process
    }
  }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  Profiler* profiler_;
  WaitReason kind_;
  double arrived_ = 0;
};

}  // namespace levin
