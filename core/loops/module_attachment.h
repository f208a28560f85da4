#pragma once

#include "levin/core/error.h"
#include "levin/core/loops/runtime.h"

namespace levin {

/// Ties a module to the Trainer that runs it, from an entry point until the next one, or until one of the two is gone.
class ModuleAttachment {
 public:
  /// The Trainer that had the module lets go of it. Throws MisuseError when that one is running it just now.
  static void release(Module& module) {
    if (module.trainer_ == nullptr) return;
    if (module.trainer_->runtime().in_entry_point) {
      throw MisuseError("The module is already running in another Trainer: give this one a module of its own.");
    }
    detach(*module.trainer_);
  }
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
