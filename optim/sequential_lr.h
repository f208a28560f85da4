#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/options/component.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

struct LEVIN_API SequentialLrOptions {
  using Scheduler = class SequentialLr;
  std::vector<Component<LrSchedulerFactory>> schedulers = {};
  std::vector<std::int64_t> milestones = {};
  static void declare(OptionList<SequentialLrOptions>& options);
};

/// Several schedules, one after the other: at milestone i, schedule i + 1 begins.
class LEVIN_API SequentialLr final : public LrScheduler {
 public:
  using Options = SequentialLrOptions;
  /// Throws ConfigError unless there is one scheduler more than milestones, the milestones rise, and every scheduler steps the
  /// same optimizer and is neither a ReduceLrOnPlateau nor a SequentialLr.
  SequentialLr(torch::optim::Optimizer& optimizer, const std::vector<std::shared_ptr<LrScheduler>>& schedulers,
               std::vector<std::int64_t> milestones);
  /// The same for schedules by name. `length`: of the whole; each is given its part between milestones.
  SequentialLr(torch::optim::Optimizer& optimizer, const SequentialLrOptions& options, const ScheduleLength& length = {});

  void step(std::optional<double> metric = std::nullopt) override;
  std::vector<double> last_lr() const override { return last_lr_; }
  torch::optim::Optimizer& optimizer() const override { return optimizer_; }
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  // Which schedule is due at a step.
  std::size_t due(std::int64_t step) const;

  torch::optim::Optimizer& optimizer_;
  std::vector<std::shared_ptr<SteppedLrScheduler>> schedulers_;
  std::vector<std::int64_t> milestones_;
  std::vector<double> last_lr_;
  std::int64_t last_epoch_ = 0;
};

}  // namespace levin
