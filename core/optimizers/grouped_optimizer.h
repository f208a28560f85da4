#pragma once

#include <memory>
#include <vector>

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/optimizers/parameter_groups.h"

namespace levin {

/// What grouped_optimizer_factory() gives.
class GroupedOptimizerFactory final : public OptimizerFactory {
 public:
  GroupedOptimizerFactory(Value class_path, Value init_args, ParameterGroupOptions groups);

  /// With one group.
  std::shared_ptr<torch::optim::Optimizer> make(std::vector<at::Tensor> parameters) const override;
  std::shared_ptr<torch::optim::Optimizer> make_for(const torch::nn::Module& module) const override;

 private:
  Value class_path_;
  Value init_args_;
  ParameterGroupOptions groups_;
};

}  // namespace levin
