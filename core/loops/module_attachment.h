#pragma once

#include "levin/core/loops/runtime.h"

namespace levin {

/// Ties a module to the Trainer that runs it, from an entry point until the next one, or until one of the two is gone.
class ModuleAttachment {
 public:
  static void attach(Module& module, Trainer& trainer, MetricStore& metrics) {
    module.trainer_ = &trainer;
    module.metrics_ = &metrics;
  }
  static void detach(Trainer& trainer) {
    Module*& module = trainer.runtime().module;
    if (module == nullptr) return;
    module->trainer_ = nullptr;
    module->metrics_ = nullptr;
    module = nullptr;
  }
};

}  // namespace levin
