#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/options/choice.h"
#include "levin/core/options/value.h"

namespace torch::optim {
class Optimizer;
}

namespace levin {

/// Changes the learning rate of an optimizer's parameter groups over time. Names, arguments and values are PyTorch's.
/// A scheduler keeps a reference to its optimizer: the optimizer must outlive it.
class LEVIN_API LrScheduler {
 public:
  virtual ~LrScheduler();
  /// One step of the schedule: a training step or an epoch, as SchedulerConfig::interval says. `metric` is for
  /// ReduceLrOnPlateau; others ignore it.
  virtual void step(std::optional<double> metric = std::nullopt) = 0;
  /// True for a scheduler that needs a monitored metric.
  virtual bool needs_metric() const { return false; }
  /// The learning rate of each parameter group, as last set.
  virtual std::vector<double> last_lr() const = 0;
  virtual torch::optim::Optimizer& optimizer() const = 0;
  /// What resuming needs.
  virtual Value state_dict() const = 0;
  virtual void load_state_dict(const Value& state) = 0;
};

/// A scheduler and when it steps. Defaults are Lightning's.
struct LEVIN_API SchedulerConfig {
  std::shared_ptr<LrScheduler> scheduler = nullptr;
  Interval interval = Interval::kEpoch;
  std::int64_t frequency = 1;  ///< every so many intervals
  std::string monitor = {};    ///< key that ReduceLrOnPlateau looks at
  bool strict = true;          ///< a missing monitor is an error, not a warning
  std::string name = {};       ///< name for LearningRateMonitor; empty: lr-<optimizer class>
};

}  // namespace levin
