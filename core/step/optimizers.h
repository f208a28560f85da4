#pragma once

#include <memory>
#include <vector>

#include "levin/core/config/value.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/trainer_options.h"

namespace levin {

class OptimizerSetups;
class TrainingLength;

/// Optimizer and scheduler made by name, instead of by the module's configure_optimizers.
struct OptimizerOverride {
  std::shared_ptr<OptimizerFactory> optimizer;  ///< null: the module's own
  std::shared_ptr<LrSchedulerFactory> scheduler;
  Value scheduler_settings;  ///< marked with the scheduler's position in the configuration
};

/// Made by name when the run's configuration says so, else by the module's configure_optimizers. Ranks: all, since a scheduler
/// that is made by name may ask for the length of training.
OptimizerSetups make_optimizers(Module& module, const OptimizerOverride& override_by_name, const TrainingLength& length);

/// Checks the result of configure_optimizers and adds it to the parts. Throws MisuseError for several optimizers under
/// automatic optimization, a scheduler without its monitor, or a scheduler of an optimizer that is not among them.
void take_optimizers(const OptimizerSetups& setups, const TrainerOptions& options, RunParts& parts);

/// Sets the initial rate of every parameter group; schedulers are relative to it, as if it had been set before they were made.
void begin_with_rate(const RunParts& parts, double lr);

/// Steps learning-rate schedulers when they are due: those on a metric after validation, the others before.
class SchedulerRunner {
 public:
  SchedulerRunner(RunParts& parts, const Progress& progress, const MetricStore& metrics, HookRunner& hooks)
      : parts_(parts), progress_(progress), metrics_(metrics), hooks_(hooks) {}
  /// `on_metric`: schedulers that need a metric (ReduceLROnPlateau), or all others.
  void step(Interval interval, bool on_metric);
  /// True when one of these schedulers must step. The same on all ranks.
  bool is_due(Interval interval, bool on_metric) const;
  /// Called: in the sanity check, when its metrics exist. Warns of a monitored key that validation does not seem to log.
  static void warn_of_monitors(const RunParts& parts, const MetricStore& metrics);

 private:
  bool is_due(const SchedulerConfig& config, Interval interval, bool on_metric) const;

  RunParts& parts_;
  const Progress& progress_;
  const MetricStore& metrics_;
  HookRunner& hooks_;
};

/// Warns on rank 0, when training has ended, of schedules that were not stepped: under manual optimization only the module
/// steps them.
class ScheduleWatch {
 public:
  /// Training begins, or resumes.
  explicit ScheduleWatch(const RunParts& parts);
  /// Training has ended, after an optimizer's step.
  void warn_of_unstepped(const RunParts& parts) const;

 private:
  std::vector<Value> states_;  ///< by scheduler; empty: nothing to check
};

/// Warns on rank 0 of schedules whose end or milestones training does not reach, by PyTorch's names in a scheduler's state.
/// Skips what is not known.
void warn_of_unreached_schedules(const RunParts& parts, const TrainingLength& length);

}  // namespace levin
