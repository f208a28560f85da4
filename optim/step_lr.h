#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/export.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

struct LEVIN_API StepLrOptions {
  using Scheduler = class StepLr;
  std::int64_t step_size = 0;
  double gamma = 0.1;
  static void declare(OptionList<StepLrOptions>& options);
};

/// Multiplies the rate by gamma every step_size steps.
class LEVIN_API StepLr final : public SteppedLrSchedulerWith<StepLrOptions> {
 public:
  StepLr(torch::optim::Optimizer& optimizer, const StepLrOptions& options);

 private:
  double next_lr(std::size_t group, double lr) override;
};

struct LEVIN_API MultiStepLrOptions {
  using Scheduler = class MultiStepLr;
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;
  static void declare(OptionList<MultiStepLrOptions>& options);
};

/// Multiplies the rate by gamma at each milestone; a milestone given twice counts twice.
class LEVIN_API MultiStepLr final : public SteppedLrSchedulerWith<MultiStepLrOptions> {
 public:
  MultiStepLr(torch::optim::Optimizer& optimizer, const MultiStepLrOptions& options);

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
};

struct LEVIN_API ExponentialLrOptions {
  using Scheduler = class ExponentialLr;
  double gamma = 0.0;
  static void declare(OptionList<ExponentialLrOptions>& options);
};

/// Multiplies the rate by gamma at every step.
class LEVIN_API ExponentialLr final : public SteppedLrSchedulerWith<ExponentialLrOptions> {
 public:
  ExponentialLr(torch::optim::Optimizer& optimizer, const ExponentialLrOptions& options);

 private:
  double next_lr(std::size_t group, double lr) override;
};

}  // namespace levin
