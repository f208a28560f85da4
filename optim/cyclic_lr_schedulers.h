#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/options.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/optim/lr_schedulers.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

struct LEVIN_API OneCycleLrOptions {
  using Scheduler = class OneCycleLr;
  PerGroup<double> max_lr = 0.0;
  std::optional<std::int64_t> total_steps = std::nullopt;  ///< in YAML unset, as the two below: all of training
  std::optional<std::int64_t> epochs = std::nullopt;
  std::optional<std::int64_t> steps_per_epoch = std::nullopt;
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::kCos;
  bool cycle_momentum = true;
  PerGroup<double> base_momentum = 0.85;
  PerGroup<double> max_momentum = 0.95;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;
  static void declare(OptionList<OneCycleLrOptions>& options);
  std::int64_t length() const { return total_steps ? *total_steps : *epochs * *steps_per_epoch; }
  void check_groups(std::size_t groups) const;
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
  Target target(std::size_t group, std::int64_t step) const;
  void before_step() override;
  double next_lr(std::size_t group, double) override { return target(group, last_epoch()).lr; }
  double first_lr(std::size_t group) const override { return target(group, 0).lr; }
  bool takes_new_groups() const override { return false; }
};

/// How high the cycles of CyclicLR are: all alike, each half as high as the one before, or less by gamma with every step.
enum class CycleMode : std::uint8_t { kTriangular, kTriangular2, kExpRange };
template <>
inline constexpr std::array kChoices<CycleMode> = {Choice{CycleMode::kTriangular, "triangular"},
                                                   Choice{CycleMode::kTriangular2, "triangular2"},
                                                   Choice{CycleMode::kExpRange, "exp_range"}};

struct LEVIN_API CyclicLrOptions {
  using Scheduler = class CyclicLr;
  PerGroup<double> base_lr = 0.0;
  PerGroup<double> max_lr = 0.0;
  std::int64_t step_size_up = 2000;
  std::optional<std::int64_t> step_size_down = std::nullopt;  ///< unset: step_size_up
  CycleMode mode = CycleMode::kTriangular;
  double gamma = 1.0;
  bool cycle_momentum = true;
  PerGroup<double> base_momentum = 0.8;
  PerGroup<double> max_momentum = 0.9;
  static void declare(OptionList<CyclicLrOptions>& options);
  std::int64_t length() const { return step_size_up + step_size_down.value_or(step_size_up); }
  void check_groups(std::size_t groups) const;
};

/// Cycles without end (Smith 2017): the rate goes linearly from base_lr to max_lr and back, while the momentum (SGD, RMSprop)
/// or the first beta (Adam, AdamW) goes the other way.
class LEVIN_API CyclicLr final : public SteppedLrSchedulerWith<CyclicLrOptions> {
 public:
  /// Throws ConfigError as checked() does, and with cycle_momentum on an optimizer that has neither momentum nor betas.
  CyclicLr(torch::optim::Optimizer& optimizer, const CyclicLrOptions& options);

 private:
  void before_step() override;
  double next_lr(std::size_t group, double) override;
  bool takes_new_groups() const override { return false; }
  /// How far up the present step is: 0 at the base, 1 at the top of the first cycle.
  double height() const;
  void save_state(Value& state) const override;
  void load_state(const Value& state) override;
};

}  // namespace levin
