#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/export.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

struct LEVIN_API CosineAnnealingLrOptions {
  using Scheduler = class CosineAnnealingLr;
  std::optional<std::int64_t> T_max = std::nullopt;  ///< in YAML unset: all of training; required in C++
  double eta_min = 0.0;
  static void declare(OptionList<CosineAnnealingLrOptions>& options);
};

/// Lets the rate fall to eta_min along half a cosine of T_max steps, and rise again in as many.
class LEVIN_API CosineAnnealingLr final : public SteppedLrSchedulerWith<CosineAnnealingLrOptions> {
 public:
  CosineAnnealingLr(torch::optim::Optimizer& optimizer, const CosineAnnealingLrOptions& options,
                    const ScheduleLength& length = {});

 private:
  double next_lr(std::size_t group, double lr) override;
};

struct LEVIN_API CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0 = 0;
  std::int64_t T_mult = 1;
  double eta_min = 0.0;
  static void declare(OptionList<CosineAnnealingWarmRestartsOptions>& options);
};

/// Lets the rate fall to eta_min along half a cosine and jump back; each cycle is T_mult times as long as the one before.
class LEVIN_API CosineAnnealingWarmRestarts final : public SteppedLrSchedulerWith<CosineAnnealingWarmRestartsOptions> {
 public:
  CosineAnnealingWarmRestarts(torch::optim::Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options);

 private:
  void before_step() override;
  double next_lr(std::size_t group, double lr) override;
  void save_state(Value& state) const override;
  void load_state(const Value& state) override;

  std::int64_t cycle_length_;
  std::int64_t step_in_cycle_ = 0;
};

}  // namespace levin
