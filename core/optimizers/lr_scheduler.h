#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/base/shared.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/value.h"

namespace torch::optim {
class Optimizer;
}

namespace levin {

/// Returns a new rate for a parameter group. `key` names the rate, as in PyTorch's state_dict: "base_lrs", "_last_lr",
/// "max_lr", "eta_min", …. A rate of all groups has group 0.
using RateChange = std::function<double(std::string_view key, std::size_t group, double rate)>;

/// Changes the learning rate of an optimizer's parameter groups over time. Names, arguments and values are PyTorch's. A
/// scheduler holds a reference to its optimizer, which must outlive it.
class LEVIN_API LrScheduler {
 public:
  virtual ~LrScheduler();
  /// Takes one step of the schedule: a training step or an epoch (SchedulerConfig::interval). Only ReduceLrOnPlateau uses
  /// `metric`.
  virtual void step(std::optional<double> metric = std::nullopt) = 0;
  /// True for a scheduler that needs a monitored metric.
  virtual bool needs_metric() const { return false; }
  /// The last learning rate of each parameter group.
  virtual std::vector<double> last_lr() const = 0;
  virtual torch::optim::Optimizer& optimizer() const = 0;
  /// The state for resuming.
  virtual Value state_dict() const = 0;
  virtual void load_state_dict(const Value& state) = 0;
  /// Changes every rate of the schedule, except the optimizer's own. Default: those in its state under PyTorch's names.
  /// Override it for other rates, or for schedulers that contain some.
  virtual void change_rates(const RateChange& change);
};

/// The number of steps of a schedule in all of training: the default of options such as OneCycleLR's total_steps in YAML. A
/// scheduler's constructor may take one after the optimizer and the options.
class LEVIN_API ScheduleLength {
 public:
  /// Unknown, as in C++: the options are then required.
  ScheduleLength() = default;
  /// `steps`: returns unset when unknown; called only when needed, because it may make the training loader. `place`: the
  /// scheduler's position, for errors.
  ScheduleLength(std::function<std::optional<std::int64_t>()> steps, Mark place);

  /// `given`, or if unset the steps of all of training, at least 1. Throws ConfigError with both names when these are unknown.
  std::int64_t unless(const std::optional<std::int64_t>& given, const std::string& class_name, const std::string& option) const;
  /// The length of a schedule that runs from step `begin` to step `end`; unset: to the end.
  ScheduleLength part(std::int64_t begin, std::optional<std::int64_t> end, const Mark& place) const;

 private:
  std::function<std::optional<std::int64_t>()> steps_;
  Mark place_;
};

/// Makes the scheduler of an optimizer, from its options, if they name their class as `Scheduler`; from a function of the
/// optimizer; or from an existing scheduler.
///
///     levin::StepLr::Options{.step_size = 5}
///     [](torch::optim::Optimizer& optimizer) { return levin::LambdaLr(optimizer, [](std::int64_t step) { return 0.9; }); }
class LEVIN_API SchedulerMaker {
 public:
  template <class Options>
  requires requires { typename Options::Scheduler; }
  SchedulerMaker(Options options)
      : make_([options = std::move(options)](torch::optim::Optimizer& optimizer) {
          return std::make_shared<typename Options::Scheduler>(optimizer, options);
        }) {}
  template <class Function>
  requires std::convertible_to<std::invoke_result_t<Function&, torch::optim::Optimizer&>, Shared<LrScheduler>> SchedulerMaker(
      Function make)
      : make_([make = std::move(make)](torch::optim::Optimizer& optimizer) mutable {
          return Shared<LrScheduler>(make(optimizer));
        }) {}
  template <std::derived_from<LrScheduler> Scheduler>
  SchedulerMaker(std::shared_ptr<Scheduler> made)
      : make_([made = std::move(made)](torch::optim::Optimizer&) { return made; }) {}

  std::shared_ptr<LrScheduler> make(torch::optim::Optimizer& optimizer) const { return make_(optimizer); }

 private:
  std::function<std::shared_ptr<LrScheduler>(torch::optim::Optimizer&)> make_;
};

/// A scheduler and when it steps. Defaults are Lightning's.
struct LEVIN_API SchedulerConfig {
  std::shared_ptr<LrScheduler> scheduler = nullptr;
  Interval interval = Interval::kEpoch;
  std::int64_t frequency = 1;  ///< steps after this many intervals
  std::string monitor = {};    ///< the metric of ReduceLrOnPlateau
  bool strict = true;          ///< a missing monitor is an error, not a warning
  std::string name = {};       ///< name for LearningRateMonitor; empty: "lr-" and the optimizer's class
};

}  // namespace levin
