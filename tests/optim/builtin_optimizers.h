#pragma once

#include <torch/torch.h>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/optimizer_state.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_factory.h"

/// The registries with the built-in classes in them; the program that links the library has them filled once.
inline std::shared_ptr<levin::OptimizerFactory> optimizer_factory(const std::string& name, const levin::Value& init_args) {
  return levin::Registry<levin::OptimizerFactory>::instance().make(levin::Value(name), init_args);
}
inline std::shared_ptr<levin::LrSchedulerFactory> scheduler_factory(const std::string& name, const levin::Value& init_args) {
  return levin::Registry<levin::LrSchedulerFactory>::instance().make(levin::Value(name), init_args);
}

/// Gives an optimizer the weights of another, and its state as a checkpoint stores it: as text and copies.
inline void resume_optimizer(const torch::optim::Optimizer& saved, torch::optim::Optimizer& resumed) {
  levin::Checkpoint checkpoint;
  levin::save_optimizer(saved, 0, checkpoint);
  checkpoint.manifest = levin::parse_json(levin::to_json(checkpoint.manifest));
  for (auto& [name, tensor] : checkpoint.tensors) tensor = tensor.clone();
  const torch::NoGradGuard no_grad;
  const auto& weights = saved.param_groups()[0].params();
  for (std::size_t index = 0; index < weights.size(); ++index) resumed.param_groups()[0].params()[index].copy_(weights[index]);
  levin::load_optimizer(resumed, 0, checkpoint);
}
