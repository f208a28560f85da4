#include "levin/core/optimizers/optimizer_factory.h"

#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

OptimizerFactory::~OptimizerFactory() = default;
LrSchedulerFactory::~LrSchedulerFactory() = default;

void detail::check_has_parameters(const std::vector<at::Tensor>& parameters) {
  if (parameters.empty()) throw MisuseError("The optimizer has no parameters: does the module have any that need a gradient?");
}

std::shared_ptr<torch::optim::Optimizer> OptimizerFactory::make_for(const torch::nn::Module& module) const {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  return make(std::move(parameters));
}

}  // namespace levin
