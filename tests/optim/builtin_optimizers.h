#pragma once

#include "levin/core/config/registry.h"
#include "levin/core/optimizers/optimizer_factory.h"

/// The registries with the built-in classes in them; the program that links the library has them filled once.
inline std::shared_ptr<levin::OptimizerFactory> optimizer_factory(const std::string& name, const levin::Value& init_args) {
  return levin::Registry<levin::OptimizerFactory>::instance().make(levin::Value(name), init_args);
}
inline std::shared_ptr<levin::LrSchedulerFactory> scheduler_factory(const std::string& name, const levin::Value& init_args) {
  return levin::Registry<levin::LrSchedulerFactory>::instance().make(levin::Value(name), init_args);
}
