#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/protocol/metrics.h"

namespace torch::optim {
class Optimizer;
}

namespace levin {

class Trainer;
struct SchedulerConfig;

/// A parameter group of an optimizer that a run trains with.
struct LEVIN_API NamedParameterGroup {
  std::string name;  ///< of its rate in LearningRateMonitor: see learning_rates()
  torch::optim::Optimizer* optimizer = nullptr;
  std::size_t index = 0;                       ///< of the group, in the optimizer
  const SchedulerConfig* scheduler = nullptr;  ///< that changes its rate, if any
};

/// The parameter groups of all optimizers: those with a scheduler first.
LEVIN_API std::vector<NamedParameterGroup> named_parameter_groups(const Trainer& trainer);

/// The current learning rate of each parameter group, under Lightning's names: `lr-SGD`, `lr-SGD/pg1` where an optimizer has
/// several groups, `lr-SGD-1` for the second optimizer of a class; a scheduler's own name is used unchanged. Called: from
/// on_train_start on, when the optimizers exist.
LEVIN_API MetricMap learning_rates(const Trainer& trainer);

}  // namespace levin
