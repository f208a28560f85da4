#pragma once

#include "levin/core/engine/parts/hook_runner.h"

namespace levin {

class TrainingLength;

/// Steps learning-rate schedulers when they are due: those on a metric after validation, the others before.
class SchedulerRunner {
 public:
  SchedulerRunner(RunParts& parts, const Progress& progress, const MetricStore& metrics, HookRunner& hooks)
      : parts_(parts), progress_(progress), metrics_(metrics), hooks_(hooks) {}
  /// `on_metric`: schedulers that need a metric (ReduceLROnPlateau), or all others.
  void step(Interval interval, bool on_metric);
  /// Some scheduler of these has its turn. The same on all ranks.
  bool is_due(Interval interval, bool on_metric) const;
  /// Warns of what a scheduler monitors and validation does not seem to log. Called: in the sanity check, when its metrics are
  /// there.
  static void warn_of_monitors(const RunParts& parts, const MetricStore& metrics);

 private:
  bool is_due(const SchedulerConfig& config, Interval interval, bool on_metric) const;

  RunParts& parts_;
  const Progress& progress_;
  const MetricStore& metrics_;
  HookRunner& hooks_;
};

/// Warns on rank 0 of schedules whose end, or of whose milestones, training does not come to: by the names that PyTorch gives
/// them in a scheduler's state. What is not known is passed over.
void warn_of_unreached_schedules(const RunParts& parts, const TrainingLength& length);

}  // namespace levin
