#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/optimizers/lr_scheduler.h"

namespace levin {

/// Makes an optimizer for the `optimizer:` section of YAML. Registered by PyTorch's class name: SGD, Adam, AdamW, …
class LEVIN_API OptimizerFactory {
 public:
  virtual ~OptimizerFactory();
  virtual std::shared_ptr<torch::optim::Optimizer> make(std::vector<at::Tensor> parameters) const = 0;
};

/// Makes a scheduler for the `lr_scheduler:` section of YAML. Registered by PyTorch's class name: StepLR, OneCycleLR, …
class LEVIN_API LrSchedulerFactory {
 public:
  virtual ~LrSchedulerFactory();
  virtual std::shared_ptr<LrScheduler> make(torch::optim::Optimizer& optimizer) const = 0;
};

}  // namespace levin
