#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "levin/core/export.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

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
  // What a group goes between.
  struct Range {
    double initial_lr, max_lr, min_lr, base_momentum, max_momentum;
  };
  struct Target {
    double lr, momentum;
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

}  // namespace levin
