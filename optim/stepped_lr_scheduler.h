#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/optimizers/lr_scheduler.h"

namespace levin {

/// Base of the schedulers that give each group a new rate at every step, from its present rate and the number of the step:
/// PyTorch's `LRScheduler`. Derive your schedule from it; call start() at the end of your constructor.
///
///     class Halve final : public levin::SteppedLrScheduler {
///      public:
///       explicit Halve(torch::optim::Optimizer& optimizer) : SteppedLrScheduler(optimizer) { start(); }
///      private:
///       double next_lr(std::size_t, double lr) override { return last_epoch() == 0 ? lr : lr / 2; }
///     };
class LEVIN_API SteppedLrScheduler : public LrScheduler {
 public:
  void step(std::optional<double> metric = std::nullopt) override;
  std::vector<double> last_lr() const override { return last_lr_; }
  torch::optim::Optimizer& optimizer() const override { return optimizer_; }
  /// PyTorch's keys: last_epoch, base_lrs, _last_lr, and the scheduler's arguments.
  Value state_dict() const override;
  /// Restores what state_dict() gave, the arguments included, as PyTorch does. The optimizer's own rates are restored with the
  /// optimizer. Throws ConfigError when the state is of another scheduler or of another number of groups.
  void load_state_dict(const Value& state) override;
  /// Groups that were added since the last step follow the schedule from here on.
  void change_rates(const RateChange& change) override;
  /// How many steps have been taken: 0 after construction.
  std::int64_t last_epoch() const { return last_epoch_; }

 protected:
  explicit SteppedLrScheduler(torch::optim::Optimizer& optimizer);
  /// Step 0, which sets the first rates.
  void start() { step(); }

  /// The rate of a group at step last_epoch(), given its present one.
  virtual double next_lr(std::size_t group, double lr) = 0;
  /// The rate of a group when the schedule begins, whatever its present rate is.
  virtual double first_lr(std::size_t group) const { return base_lr(group); }
  /// Groups that are added to the optimizer while it trains follow the schedule too, from the rate they come with. False for a
  /// schedule that has a value for each group: a step is then an error.
  virtual bool takes_new_groups() const { return true; }
  /// Called before the rates are computed, after last_epoch() has changed.
  virtual void before_step() {}
  /// Adds to, or takes from, the state what a derived class needs.
  virtual void save_state(Value&) const {}
  virtual void load_state(const Value&) {}

  /// The rate the schedule is relative to: PyTorch's `base_lrs`.
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  std::size_t group_count() const { return base_lrs_.size(); }
  /// Replaces the initial rate of a group, for this scheduler and those made after it.
  void set_initial_lr(std::size_t group, double lr);
  /// Replaces the initial rate of a group, for this scheduler alone.
  void set_base_lr(std::size_t group, double lr) { base_lrs_[group] = lr; }

 private:
  friend class SequentialLr;
  void set_lrs(const std::vector<double>& lrs);
  /// Groups that were added follow from here on.
  void take_new_groups();
  /// Starts the schedule now, at the rate it begins with: what a sequence does at a milestone.
  void restart();
  /// Forgets step 0, which a member of a sequence that is not yet due took when it was made.
  void undo_start() { --last_epoch_; }

  torch::optim::Optimizer& optimizer_;
  std::shared_ptr<std::vector<double>> initial_lrs_;
  std::vector<double> base_lrs_;
  std::vector<double> last_lr_;
  std::int64_t last_epoch_ = -1;
};

namespace detail {
LEVIN_API void check_one_for_each_group(std::size_t values, std::size_t groups, const std::string& option);
/// The options that a scheduler's state holds among other things.
template <class Options>
Options options_in_state(const Value& state) {
  Value own(Value::Map{});
  for (const OptionInfo& info : describe_options<Options>()) own[info.name] = state.at(info.name);
  return read_options<Options>(own);
}
}  // namespace detail

/// A SteppedLrScheduler with declared options, which are part of its state. Where some are PerGroup, a
/// `check_groups(std::size_t)` of theirs throws ConfigError when these do not fit so many groups.
template <class OptionsType>
class LEVIN_API SteppedLrSchedulerWith : public SteppedLrScheduler {
 public:
  using Options = OptionsType;
  const Options& options() const { return options_; }

 protected:
  SteppedLrSchedulerWith(const char* class_name, torch::optim::Optimizer& optimizer, const Options& options)
      : SteppedLrScheduler(optimizer), options_(fitting(checked(class_name, options))) {}
  void save_state(Value& state) const override {
    for (const auto& [name, value] : write_options(options_).as_map()) state[name] = value;
  }
  void load_state(const Value& state) override { options_ = fitting(detail::options_in_state<Options>(state)); }

 private:
  Options fitting(Options options) const {
    if constexpr (requires { options.check_groups(1); }) options.check_groups(group_count());
    return options;
  }

  Options options_;
};

/// A SteppedLrScheduler whose rates follow from its options, the step, and a group's rates alone. Its Options have `kName`,
/// PyTorch's name of the class, and the formula: the rate of a group at a step, given its present one and the one that the
/// schedule is relative to.
///
///     double next_lr(std::int64_t step, double lr, double base_lr) const;
///
/// They may have a `first_lr(base_lr)`, where the schedule begins with another rate within a sequence, and a
/// `completed(length)` that gives them with the length of training.
template <class OptionsType>
class LEVIN_API FormulaLr : public SteppedLrSchedulerWith<OptionsType> {
 public:
  using SteppedLrSchedulerWith<OptionsType>::options;
  FormulaLr(torch::optim::Optimizer& optimizer, const OptionsType& options, const ScheduleLength& length = {})
      : SteppedLrSchedulerWith<OptionsType>(OptionsType::kName, optimizer, with_length(options, length)) {
    this->start();
  }

 private:
  static OptionsType with_length(const OptionsType& options, const ScheduleLength& length) {
    if constexpr (requires { options.completed(length); }) return options.completed(length);
    return options;
  }
  double next_lr(std::size_t group, double lr) override {
    return options().next_lr(this->last_epoch(), lr, this->base_lr(group));
  }
  double first_lr(std::size_t group) const override {
    const double base_lr = this->base_lr(group);
    if constexpr (requires { options().first_lr(base_lr); }) return options().first_lr(base_lr);
    return options().next_lr(0, base_lr, base_lr);
  }
};

/// What holds for an optimizer's parameter groups: one value for all of them, or a list with one for each.
template <class T>
class PerGroup {
 public:
  PerGroup(T value) : values_{std::move(value)} {}
  PerGroup(const char* text) requires std::constructible_from<T, const char*> : values_{T(text)} {}
  PerGroup(std::initializer_list<T> values) : values_(values), is_list_(true) {}
  explicit PerGroup(std::vector<T> values) : values_(std::move(values)), is_list_(true) {}

  bool is_list() const { return is_list_; }
  const std::vector<T>& values() const { return values_; }
  const T& of(std::size_t group) const { return values_[is_list_ ? group : 0]; }
  /// One value for each of `groups` groups. Throws ConfigError, naming the option, when a list has another length.
  std::vector<T> expand(std::size_t groups, const std::string& option) const {
    if (is_list_) detail::check_one_for_each_group(values_.size(), groups, option);
    return is_list_ ? values_ : std::vector<T>(groups, values_.front());
  }

 private:
  std::vector<T> values_;
  bool is_list_ = false;
};

template <class T>
struct OptionType<PerGroup<T>> {
  static PerGroup<T> read(const Value& value) {
    if (value.is_list()) return PerGroup<T>(OptionType<std::vector<T>>::read(value));
    return PerGroup<T>(OptionType<T>::read(value));
  }
  static Value write(const PerGroup<T>& given) {
    return given.is_list() ? OptionType<std::vector<T>>::write(given.values()) : OptionType<T>::write(given.of(0));
  }
  static std::string name() { return OptionType<T>::name() + " or list of these"; }
  static Value schema() { return detail::any_of({OptionType<T>::schema(), OptionType<std::vector<T>>::schema()}); }
};

}  // namespace levin
