#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

// Every hook of Callback in the order of a run: HOOK(name, parameters, arguments).
#define LEVIN_LAMBDA_RUN_HOOK(HOOK, name) HOOK(name, (Trainer & trainer, Module & module), (trainer, module))
#define LEVIN_LAMBDA_OPTIMIZER_HOOK(HOOK, name) \
  HOOK(name, (Trainer & trainer, Module & module, torch::optim::Optimizer & optimizer), (trainer, module, optimizer))
#define LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, stage, Output)                                                            \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_start)                                                                     \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_epoch_start)                                                               \
  HOOK(on_##stage##_batch_start,                                                                                      \
       (Trainer & trainer, Module & module, const Batch& batch, std::int64_t batch_idx, std::int64_t dataloader_idx), \
       (trainer, module, batch, batch_idx, dataloader_idx))                                                           \
  HOOK(on_##stage##_batch_end,                                                                                        \
       (Trainer & trainer, Module & module, const Output& output, const Batch& batch, std::int64_t batch_idx,         \
        std::int64_t dataloader_idx),                                                                                 \
       (trainer, module, output, batch, batch_idx, dataloader_idx))                                                   \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_epoch_end)                                                                 \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_##stage##_end)
#define LEVIN_LAMBDA_HOOKS(HOOK)                                                                                              \
  HOOK(setup, (Trainer & trainer, Module & module, Stage stage), (trainer, module, stage))                                    \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_fit_start)                                                                                   \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_sanity_check_start)                                                                          \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_sanity_check_end)                                                                            \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_start)                                                                                 \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_epoch_start)                                                                           \
  HOOK(on_train_batch_start, (Trainer & trainer, Module & module, const Batch& batch, std::int64_t batch_idx),                \
       (trainer, module, batch, batch_idx))                                                                                   \
  LEVIN_LAMBDA_OPTIMIZER_HOOK(HOOK, on_before_zero_grad)                                                                      \
  HOOK(on_before_backward, (Trainer & trainer, Module & module, const at::Tensor& loss), (trainer, module, loss))             \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_after_backward)                                                                              \
  LEVIN_LAMBDA_OPTIMIZER_HOOK(HOOK, on_before_optimizer_step)                                                                 \
  HOOK(on_train_batch_end,                                                                                                    \
       (Trainer & trainer, Module & module, const StepOutput& output, const Batch& batch, std::int64_t batch_idx),            \
       (trainer, module, output, batch, batch_idx))                                                                           \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_epoch_end)                                                                             \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_train_end)                                                                                   \
  LEVIN_LAMBDA_RUN_HOOK(HOOK, on_fit_end)                                                                                     \
  LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, validation, StepOutput)                                                                 \
  LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, test, StepOutput)                                                                       \
  LEVIN_LAMBDA_EVALUATION_HOOKS(HOOK, predict, Batch)                                                                         \
  HOOK(on_rank_metrics, (Trainer & trainer, Module & module, const MetricRow& row, const std::vector<MetricMap>& by_rank),    \
       (trainer, module, row, by_rank))                                                                                       \
  HOOK(on_exception, (Trainer & trainer, Module & module, const std::exception& error), (trainer, module, error))             \
  HOOK(on_save_checkpoint, (Trainer & trainer, Module & module, Checkpoint & checkpoint), (trainer, module, checkpoint))      \
  HOOK(on_load_checkpoint, (Trainer & trainer, Module & module, const Checkpoint& checkpoint), (trainer, module, checkpoint)) \
  HOOK(teardown, (Trainer & trainer, Module & module, Stage stage), (trainer, module, stage))

namespace levin {

/// One function a hook, with the hook's name and arguments; those left out do nothing. Written with designated initializers.
struct LEVIN_API LambdaCallbackOptions {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define LEVIN_LAMBDA_MEMBER(name, parameters, arguments) std::function<void parameters> name = nullptr;
  LEVIN_LAMBDA_HOOKS(LEVIN_LAMBDA_MEMBER)
#undef LEVIN_LAMBDA_MEMBER
};

/// Runs the functions it is given, for a callback that is not worth a class. C++ only: YAML cannot name a function.
///
///     std::make_shared<levin::LambdaCallback>(levin::LambdaCallbackOptions{
///         .on_train_epoch_end = [](auto& trainer, auto&) { std::puts("…"); }});
class LEVIN_API LambdaCallback final : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbackOptions functions) : functions_(std::move(functions)) {}

#define LEVIN_LAMBDA_OVERRIDE(name, parameters, arguments) \
  void name parameters override {                          \
    if (functions_.name) functions_.name arguments;        \
  }
  LEVIN_LAMBDA_HOOKS(LEVIN_LAMBDA_OVERRIDE)
#undef LEVIN_LAMBDA_OVERRIDE

 private:
  LambdaCallbackOptions functions_;
};

}  // namespace levin

#undef LEVIN_LAMBDA_HOOKS
#undef LEVIN_LAMBDA_EVALUATION_HOOKS
#undef LEVIN_LAMBDA_OPTIMIZER_HOOK
#undef LEVIN_LAMBDA_RUN_HOOK
