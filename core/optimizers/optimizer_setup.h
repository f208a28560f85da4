#pragma once

#include <torch/optim/optimizer.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/options/common_choices.h"

namespace levin {

/// A scheduler and when it steps. Defaults are Lightning's.
struct LEVIN_API SchedulerConfig {
  std::shared_ptr<LrScheduler> scheduler = nullptr;
  Interval interval = Interval::kEpoch;
  std::int64_t frequency = 1;  ///< every so many intervals
  std::string monitor = {};    ///< key that ReduceLrOnPlateau looks at
  bool strict = true;          ///< a missing monitor is an error, not a warning
  std::string name = {};       ///< name for LearningRateMonitor; empty: lr-<optimizer class>
};

/// An optimizer with its schedulers.
struct LEVIN_API OptimizerSetup {
  std::shared_ptr<torch::optim::Optimizer> optimizer = nullptr;
  std::vector<SchedulerConfig> schedulers = {};
};

/// What configure_optimizers returns: nothing, one optimizer, one with schedulers, or several.
///
///     return std::make_shared<torch::optim::Adam>(parameters(), lr);
///     return {optimizer, {{.scheduler = std::make_shared<levin::StepLr>(*optimizer, …), .interval = levin::Interval::kStep}}};
class LEVIN_API OptimizerSetups {
 public:
  OptimizerSetups() = default;
  template <class Derived>
  requires std::derived_from<Derived, torch::optim::Optimizer> OptimizerSetups(std::shared_ptr<Derived> optimizer,
                                                                               std::vector<SchedulerConfig> schedulers = {})
      : setups_{{std::move(optimizer), std::move(schedulers)}} {}
  template <class Derived>
  requires std::derived_from<Derived, torch::optim::Optimizer> OptimizerSetups(std::unique_ptr<Derived> optimizer)
      : setups_{{std::move(optimizer), {}}} {}
  OptimizerSetups(OptimizerSetup setup) : setups_{std::move(setup)} {}
  OptimizerSetups(std::vector<OptimizerSetup> setups) : setups_(std::move(setups)) {}

  std::vector<OptimizerSetup>& list() { return setups_; }
  const std::vector<OptimizerSetup>& list() const { return setups_; }

 private:
  std::vector<OptimizerSetup> setups_;
};

}  // namespace levin
