#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/config/options.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

namespace detail {
/// Several schedulers of one optimizer as one: its state contains theirs.
class LEVIN_API SchedulerList : public LrScheduler {
 public:
  std::vector<double> last_lr() const override { return last_lr_; }
  torch::optim::Optimizer& optimizer() const override { return optimizer_; }
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void change_rates(const RateChange& change) override;

 protected:
  SchedulerList(const char* class_name, torch::optim::Optimizer& optimizer,
                std::vector<std::shared_ptr<LrScheduler>> schedulers);

  std::string class_name_;
  torch::optim::Optimizer& optimizer_;
  std::vector<std::shared_ptr<LrScheduler>> schedulers_;
  std::vector<double> last_lr_;
};
}  // namespace detail

struct LEVIN_API SequentialLrOptions {
  using Scheduler = class SequentialLr;
  std::vector<Component<LrSchedulerFactory>> schedulers = {};
  std::vector<std::int64_t> milestones = {};
  static void declare(OptionList<SequentialLrOptions>& options);
};

/// Several schedules, one after the other: at milestone i, schedule i + 1 begins.
class LEVIN_API SequentialLr final : public detail::SchedulerList {
 public:
  using Options = SequentialLrOptions;
  /// Throws ConfigError unless there is one scheduler more than milestones, the milestones rise, and every scheduler steps the
  /// same optimizer and is neither a ReduceLrOnPlateau nor a SequentialLr.
  SequentialLr(torch::optim::Optimizer& optimizer, std::vector<std::shared_ptr<LrScheduler>> schedulers,
               std::vector<std::int64_t> milestones);
  /// The same for schedules by name. `length`: of the whole; each is given its part between milestones.
  SequentialLr(torch::optim::Optimizer& optimizer, const SequentialLrOptions& options, const ScheduleLength& length = {});

  void step(std::optional<double> metric = std::nullopt) override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  std::size_t due(std::int64_t step) const;
  SteppedLrScheduler& member(std::size_t index) const { return static_cast<SteppedLrScheduler&>(*schedulers_[index]); }

  std::vector<std::int64_t> milestones_;
  std::int64_t last_epoch_ = 0;
};

struct LEVIN_API ChainedSchedulerOptions {
  using Scheduler = class ChainedScheduler;
  std::vector<Component<LrSchedulerFactory>> schedulers = {};
  static void declare(OptionList<ChainedSchedulerOptions>& options);
};

/// Several schedules at once: at every step each changes, in their order, the rates that the one before has left.
class LEVIN_API ChainedScheduler final : public detail::SchedulerList {
 public:
  using Options = ChainedSchedulerOptions;
  /// Throws ConfigError when there is none, and for one that steps another optimizer or needs a metric.
  ChainedScheduler(torch::optim::Optimizer& optimizer, std::vector<std::shared_ptr<LrScheduler>> schedulers);
  /// The same for schedules by name. `length`: of the whole, and of each.
  ChainedScheduler(torch::optim::Optimizer& optimizer, const ChainedSchedulerOptions& options,
                   const ScheduleLength& length = {});

  void step(std::optional<double> metric = std::nullopt) override;
};

}  // namespace levin
