#pragma once

#include "levin/core/run/hook_runner.h"

namespace levin {

/// Steps learning-rate schedulers when they are due: those on a metric after validation, the others before.
class SchedulerRunner {
 public:
  explicit SchedulerRunner(Trainer::Runtime& runtime) : runtime_(runtime), hooks_(runtime) {}
  /// `on_metric`: schedulers that need a metric (ReduceLROnPlateau), or all others.
  void step(Interval interval, bool on_metric);

 private:
  Trainer::Runtime& runtime_;
  HookRunner hooks_;
};

}  // namespace levin
