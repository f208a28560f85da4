#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/export.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

struct LEVIN_API ConstantLrOptions {
  using Scheduler = class ConstantLr;
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
  static void declare(OptionList<ConstantLrOptions>& options);
};

/// The rate times factor for the first total_iters steps.
class LEVIN_API ConstantLr final : public SteppedLrSchedulerWith<ConstantLrOptions> {
 public:
  explicit ConstantLr(torch::optim::Optimizer& optimizer, const ConstantLrOptions& options = {});

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
};

struct LEVIN_API LinearLrOptions {
  using Scheduler = class LinearLr;
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
  static void declare(OptionList<LinearLrOptions>& options);
};

/// The rate times a factor that goes from start_factor to end_factor, linearly, in total_iters steps.
class LEVIN_API LinearLr final : public SteppedLrSchedulerWith<LinearLrOptions> {
 public:
  explicit LinearLr(torch::optim::Optimizer& optimizer, const LinearLrOptions& options = {});

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
};

struct LEVIN_API PolynomialLrOptions {
  using Scheduler = class PolynomialLr;
  std::optional<std::int64_t> total_iters = std::nullopt;  ///< in YAML unset: all of training; required in C++
  double power = 1.0;
  static void declare(OptionList<PolynomialLrOptions>& options);
};

/// Lets the rate fall to zero in total_iters steps, as (1 - step / total_iters) to the given power.
class LEVIN_API PolynomialLr final : public SteppedLrSchedulerWith<PolynomialLrOptions> {
 public:
  PolynomialLr(torch::optim::Optimizer& optimizer, const PolynomialLrOptions& options, const ScheduleLength& length = {});

 private:
  double next_lr(std::size_t group, double lr) override;
};

}  // namespace levin
