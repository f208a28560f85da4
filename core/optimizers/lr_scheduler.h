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

/// Gives a rate in place of another, of a parameter group; `key` says which it is, as PyTorch's state_dict does: "base_lrs",
/// "_last_lr", "max_lr", "eta_min", …. A number that stands for all groups is that of group 0.
using RateChange = std::function<double(std::string_view key, std::size_t group, double rate)>;

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
  /// Changes every rate that the schedule goes by from here on, the optimizer's own excepted. Default: those in its state that
  /// have PyTorch's names. Override it where there are others, or schedulers in which there are.
  virtual void change_rates(const RateChange& change);
};

/// How many steps a schedule takes in all of training: what an option of a scheduler stands for that YAML leaves out, as
/// OneCycleLR's total_steps. A scheduler class whose constructor takes one, after the optimizer and the options, is given it.
class LEVIN_API ScheduleLength {
 public:
  /// Not known, as in C++: an option that is left out is an error.
  ScheduleLength() = default;
  /// `steps`: unset when not known; called when a schedule needs it, as it may take the training loader. `place`: of the
  /// scheduler, for errors.
  ScheduleLength(std::function<std::optional<std::int64_t>()> steps, Mark place);

  /// `given`; where it is unset the steps of all of training, at least 1. Throws ConfigError where these are not known, with
  /// the names of both.
  std::int64_t unless(const std::optional<std::int64_t>& given, const std::string& class_name, const std::string& option) const;
  /// Of a schedule that is due from step `begin` on, until step `end`; unset: until the end.
  ScheduleLength part(std::int64_t begin, std::optional<std::int64_t> end, const Mark& place) const;

 private:
  std::function<std::optional<std::int64_t>()> steps_;
  Mark place_;
};

/// The scheduler of an optimizer that is still to be made: its options, where they name their class as `Scheduler`; a function
/// that is given the optimizer; or a scheduler that is there already.
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
  std::int64_t frequency = 1;  ///< every so many intervals
  std::string monitor = {};    ///< key that ReduceLrOnPlateau looks at
  bool strict = true;          ///< a missing monitor is an error, not a warning
  std::string name = {};       ///< name for LearningRateMonitor; empty: "lr-" and the optimizer's class
};

}  // namespace levin
