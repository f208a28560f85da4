#pragma once

#include "levin/core/callback.h"
#include "levin/core/module.h"

namespace levin {

/// The hooks of one kind of evaluation: the same loop serves validation and test.
struct EvaluationHooks {
  using CallbackHook = void (Callback::*)(Trainer&, Module&);
  using ModuleHook = void (Module::*)();
  using CallbackBatchStart = void (Callback::*)(Trainer&, Module&, const Batch&, std::int64_t, std::int64_t);
  using ModuleBatchStart = void (Module::*)(const Batch&, std::int64_t, std::int64_t);
  using CallbackBatchEnd = void (Callback::*)(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t, std::int64_t);
  using ModuleBatchEnd = void (Module::*)(const StepOutput&, const Batch&, std::int64_t, std::int64_t);
  template <class CallbackMethod, class ModuleMethod>
  struct Pair {
    Hook hook;
    CallbackMethod callback;
    ModuleMethod module;
  };

  Hook dataloader_hook;  ///< where reading a batch counts
  Hook model_eval_hook;
  ModuleHook model_eval;
  Hook model_train_hook;
  ModuleHook model_train;
  Pair<CallbackHook, ModuleHook> start;
  Pair<CallbackHook, ModuleHook> epoch_start;
  Pair<CallbackBatchStart, ModuleBatchStart> batch_start;
  Hook step_hook;
  void (Module::*step)(const Batch&, std::int64_t);  ///< null for prediction
  Pair<CallbackBatchEnd, ModuleBatchEnd> batch_end;  ///< null for prediction, whose output is a Batch
  Pair<CallbackHook, ModuleHook> epoch_end;
  Pair<CallbackHook, ModuleHook> end;
};

/// For kValidate and kSanityCheck, kTest, kPredict.
const EvaluationHooks& evaluation_hooks(Stage stage);

}  // namespace levin
