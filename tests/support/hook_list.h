#pragma once

// The hooks that modules and callbacks share, with the parameters that those of callbacks have behind Trainer and Module, for
// tests that override all of them: X(name, parameters…).

/// Those that have no batch.
#define LEVIN_RUN_HOOKS(X)                              \
  X(on_fit_start)                                       \
  X(on_fit_end)                                         \
  X(on_train_start)                                     \
  X(on_train_end)                                       \
  X(on_train_epoch_start)                               \
  X(on_train_epoch_end)                                 \
  X(on_before_zero_grad, torch::optim::Optimizer&)      \
  X(on_before_backward, const at::Tensor&)              \
  X(on_after_backward)                                  \
  X(on_before_optimizer_step, torch::optim::Optimizer&) \
  X(on_validation_start)                                \
  X(on_validation_end)                                  \
  X(on_validation_epoch_start)                          \
  X(on_validation_epoch_end)                            \
  X(on_test_start)                                      \
  X(on_test_end)                                        \
  X(on_test_epoch_start)                                \
  X(on_test_epoch_end)                                  \
  X(on_predict_start)                                   \
  X(on_predict_end)                                     \
  X(on_predict_epoch_start)                             \
  X(on_predict_epoch_end)                               \
  X(on_exception, const std::exception&)                \
  X(on_save_checkpoint, Checkpoint&)                    \
  X(on_load_checkpoint, const Checkpoint&)

#define LEVIN_BATCH_INDEX [[maybe_unused]] std::int64_t batch_idx
/// Those of batches, whose number is called batch_idx.
#define LEVIN_BATCH_HOOKS(X)                                                                   \
  X(on_train_batch_start, const Batch&, LEVIN_BATCH_INDEX)                                     \
  X(on_train_batch_end, const StepOutput&, const Batch&, LEVIN_BATCH_INDEX)                    \
  X(on_validation_batch_start, const Batch&, LEVIN_BATCH_INDEX, std::int64_t)                  \
  X(on_validation_batch_end, const StepOutput&, const Batch&, LEVIN_BATCH_INDEX, std::int64_t) \
  X(on_test_batch_start, const Batch&, LEVIN_BATCH_INDEX, std::int64_t)                        \
  X(on_test_batch_end, const StepOutput&, const Batch&, LEVIN_BATCH_INDEX, std::int64_t)       \
  X(on_predict_batch_start, const Batch&, LEVIN_BATCH_INDEX, std::int64_t)                     \
  X(on_predict_batch_end, const Batch&, const Batch&, LEVIN_BATCH_INDEX, std::int64_t)
