#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/options/component.h"
#include "levin/core/options/option_type.h"
#include "levin/core/options/options.h"

namespace levin {

/// Base of the schedulers that give each group a new rate at every step, from its present rate and the number of the step:
/// PyTorch's `LRScheduler`. Derive from it for a schedule of your own; call start() at the end of your constructor.
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
  /// schedule that has something of its own for each group: a step is then an error.
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
/// The options that a scheduler's state holds among other things.
template <class Options>
Options options_in_state(const Value& state) {
  Value own(Value::Map{});
  for (const auto& entry : option_list<Options>().entries()) own[entry->info.name] = state.at(entry->info.name);
  return read_options<Options>(own);
}
}  // namespace detail

/// A SteppedLrScheduler with declared options, which are part of its state.
template <class OptionsType>
class LEVIN_API SteppedLrSchedulerWith : public SteppedLrScheduler {
 public:
  using Options = OptionsType;
  const Options& options() const { return options_; }

 protected:
  SteppedLrSchedulerWith(const char* class_name, torch::optim::Optimizer& optimizer, const Options& options)
      : SteppedLrScheduler(optimizer), options_(checked(class_name, options)) {}
  void save_state(Value& state) const override {
    for (const auto& [name, value] : write_options(options_).as_map()) state[name] = value;
  }
  void load_state(const Value& state) override { options_ = detail::options_in_state<Options>(state); }

 private:
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

/// A number for an optimizer's parameter groups: one for all of them, or a list with one for each.
class LEVIN_API PerGroup {
 public:
  PerGroup(double value = 0.0) : values_{value} {}
  PerGroup(std::initializer_list<double> values) : values_(values), is_list_(true) {}
  explicit PerGroup(std::vector<double> values) : values_(std::move(values)), is_list_(true) {}

  bool is_list() const { return is_list_; }
  const std::vector<double>& values() const { return values_; }
  /// One value for each of `groups` groups. Throws ConfigError, naming the option, when a list has another length.
  std::vector<double> expand(std::size_t groups, const std::string& option) const;

 private:
  std::vector<double> values_;
  bool is_list_ = false;
};

template <>
struct LEVIN_API OptionType<PerGroup> {
  static PerGroup read(const Value& value);
  static Value write(const PerGroup& value);
  static std::string name() { return "float or list of float"; }
  static Value schema();
};

struct LEVIN_API StepLrOptions {
  using Scheduler = struct StepLr;
  static constexpr const char* kName = "StepLR";
  std::int64_t step_size = 0;
  double gamma = 0.1;
  static void declare(OptionList<StepLrOptions>& options);
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Multiplies the rate by gamma every step_size steps.
struct LEVIN_API StepLr final : FormulaLr<StepLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API MultiStepLrOptions {
  using Scheduler = struct MultiStepLr;
  static constexpr const char* kName = "MultiStepLR";
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;
  static void declare(OptionList<MultiStepLrOptions>& options);
  double first_lr(double base_lr) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Multiplies the rate by gamma at each milestone; a milestone given twice counts twice.
struct LEVIN_API MultiStepLr final : FormulaLr<MultiStepLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API ExponentialLrOptions {
  using Scheduler = struct ExponentialLr;
  static constexpr const char* kName = "ExponentialLR";
  double gamma = 0.0;
  static void declare(OptionList<ExponentialLrOptions>& options);
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Multiplies the rate by gamma at every step.
struct LEVIN_API ExponentialLr final : FormulaLr<ExponentialLrOptions> {
  using FormulaLr::FormulaLr;
};

/// The initial rate times a function of the step. From C++ only: YAML cannot hold a function.
class LEVIN_API LambdaLr final : public SteppedLrScheduler {
 public:
  /// The factor at a step; steps count from 0.
  using Factor = std::function<double(std::int64_t)>;

  LambdaLr(torch::optim::Optimizer& optimizer, Factor lr_lambda);
  /// One function for each parameter group. Throws MisuseError when their number differs.
  LambdaLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas);

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
  bool takes_new_groups() const override { return false; }
  void save_state(Value& state) const override;

  std::vector<Factor> lr_lambdas_;
};

struct LEVIN_API CosineAnnealingLrOptions {
  using Scheduler = struct CosineAnnealingLr;
  static constexpr const char* kName = "CosineAnnealingLR";
  std::optional<std::int64_t> T_max = std::nullopt;  ///< in YAML unset: all of training; required in C++
  double eta_min = 0.0;
  static void declare(OptionList<CosineAnnealingLrOptions>& options);
  CosineAnnealingLrOptions completed(const ScheduleLength& length) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Lets the rate fall to eta_min along half a cosine of T_max steps, and rise again in as many.
struct LEVIN_API CosineAnnealingLr final : FormulaLr<CosineAnnealingLrOptions> {
  using FormulaLr::FormulaLr;
};

struct LEVIN_API CosineAnnealingWarmRestartsOptions {
  static constexpr const char* kName = "CosineAnnealingWarmRestarts";
  std::int64_t T_0 = 0;
  std::int64_t T_mult = 1;
  double eta_min = 0.0;
  static void declare(OptionList<CosineAnnealingWarmRestartsOptions>& options);
  /// Steps since the cycle began that a step is in, and the length of this cycle.
  std::pair<std::int64_t, std::int64_t> cycle_at(std::int64_t step) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Lets the rate fall to eta_min along half a cosine and jump back; each cycle is T_mult times as long as the one before.
struct LEVIN_API CosineAnnealingWarmRestarts final : FormulaLr<CosineAnnealingWarmRestartsOptions> {
  using FormulaLr::FormulaLr;

 private:
  void save_state(Value& state) const override;
};

struct LEVIN_API ConstantLrOptions {
  using Scheduler = struct ConstantLr;
  static constexpr const char* kName = "ConstantLR";
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
  static void declare(OptionList<ConstantLrOptions>& options);
  double first_lr(double base_lr) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// The rate times factor for the first total_iters steps.
struct LEVIN_API ConstantLr final : FormulaLr<ConstantLrOptions> {
  using FormulaLr::FormulaLr;
  explicit ConstantLr(torch::optim::Optimizer& optimizer) : FormulaLr(optimizer, Options()) {}
};

struct LEVIN_API LinearLrOptions {
  using Scheduler = struct LinearLr;
  static constexpr const char* kName = "LinearLR";
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
  static void declare(OptionList<LinearLrOptions>& options);
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// The rate times a factor that goes from start_factor to end_factor, linearly, in total_iters steps.
struct LEVIN_API LinearLr final : FormulaLr<LinearLrOptions> {
  using FormulaLr::FormulaLr;
  explicit LinearLr(torch::optim::Optimizer& optimizer) : FormulaLr(optimizer, Options()) {}
};

struct LEVIN_API PolynomialLrOptions {
  using Scheduler = struct PolynomialLr;
  static constexpr const char* kName = "PolynomialLR";
  std::optional<std::int64_t> total_iters = std::nullopt;  ///< in YAML unset: all of training; required in C++
  double power = 1.0;
  static void declare(OptionList<PolynomialLrOptions>& options);
  PolynomialLrOptions completed(const ScheduleLength& length) const;
  double next_lr(std::int64_t step, double lr, double base_lr) const;
};

/// Lets the rate fall to zero in total_iters steps, as (1 - step / total_iters) to the given power.
struct LEVIN_API PolynomialLr final : FormulaLr<PolynomialLrOptions> {
  using FormulaLr::FormulaLr;
};

/// Along what a rate rises and falls.
enum class AnnealStrategy : std::uint8_t { kCos, kLinear };
template <>
inline constexpr std::array kChoices<AnnealStrategy> = {Choice{AnnealStrategy::kCos, "cos"},
                                                        Choice{AnnealStrategy::kLinear, "linear"}};

struct LEVIN_API OneCycleLrOptions {
  using Scheduler = class OneCycleLr;
  PerGroup max_lr = 0.0;
  std::optional<std::int64_t> total_steps = std::nullopt;  ///< in YAML unset, as the two below: all of training
  std::optional<std::int64_t> epochs = std::nullopt;
  std::optional<std::int64_t> steps_per_epoch = std::nullopt;
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::kCos;
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.85;
  PerGroup max_momentum = 0.95;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;
  static void declare(OptionList<OneCycleLrOptions>& options);
};

/// One cycle: the rate rises from max_lr / div_factor to max_lr and falls to a far lower one, while the momentum (SGD,
/// RMSprop) or the first beta (Adam, AdamW) goes the other way. Steps once per batch.
class LEVIN_API OneCycleLr final : public SteppedLrSchedulerWith<OneCycleLrOptions> {
 public:
  /// Throws ConfigError as checked() does, and with cycle_momentum on an optimizer that has neither momentum nor betas. step()
  /// throws MisuseError after total_steps.
  OneCycleLr(torch::optim::Optimizer& optimizer, const OneCycleLrOptions& options, const ScheduleLength& length = {});

 private:
  struct Target {
    double lr, momentum;
  };
  // What a group goes between.
  struct Range {
    Target low, high, last;
  };
  void lay_out();
  void before_step() override;
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
  bool takes_new_groups() const override { return false; }
  Target target(const Range& range, std::int64_t step) const;
  void load_state(const Value& state) override;

  std::int64_t total_steps_ = 0;
  std::vector<Range> ranges_;
};

/// Whether a threshold is a part of the best metric so far, or a difference from it.
enum class ThresholdMode : std::uint8_t { kRelative, kAbsolute };
template <>
inline constexpr std::array kChoices<ThresholdMode> = {Choice{ThresholdMode::kRelative, "rel"},
                                                       Choice{ThresholdMode::kAbsolute, "abs"}};

struct LEVIN_API ReduceLrOnPlateauOptions {
  using Scheduler = class ReduceLrOnPlateau;
  MonitorMode mode = MonitorMode::kMin;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::kRelative;
  std::int64_t cooldown = 0;
  PerGroup min_lr = 0.0;
  double eps = 1e-8;
  static void declare(OptionList<ReduceLrOnPlateauOptions>& options);
};

/// Multiplies the rate by factor when a metric has not become better for more than `patience` steps.
class LEVIN_API ReduceLrOnPlateau final : public LrScheduler {
 public:
  using Options = ReduceLrOnPlateauOptions;
  explicit ReduceLrOnPlateau(torch::optim::Optimizer& optimizer, const ReduceLrOnPlateauOptions& options = {});

  /// Throws MisuseError without a metric.
  void step(std::optional<double> metric = std::nullopt) override;
  bool needs_metric() const override { return true; }
  std::vector<double> last_lr() const override { return last_lr_; }
  torch::optim::Optimizer& optimizer() const override { return optimizer_; }
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  bool is_better(double metric) const;
  void reduce();

  torch::optim::Optimizer& optimizer_;
  Options options_;
  std::vector<double> last_lr_;
  double best_;
  std::int64_t last_epoch_ = 0;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

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
