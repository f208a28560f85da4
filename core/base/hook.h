#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "levin/core/base/fwd.h"

namespace levin {

/// What a Trainer is doing. Sanity checking is part of fit.
enum class Stage : std::uint8_t { kTrain, kSanityCheck, kValidate, kTest, kPredict };

/// "train", "sanity_check", "validate", "test", "predict".
LEVIN_API std::string_view stage_name(Stage stage);

// Every hook: its number, the name of the function that a user overrides, and what log() may do in it (see hook.cpp).
#define LEVIN_HOOKS(HOOK)                                                      \
  HOOK(kNone, "none", kNoLog)                                                  \
  HOOK(kPrepareData, "prepare_data", kNoLog)                                   \
  HOOK(kSetup, "setup", kNoLog)                                                \
  HOOK(kConfigureCallbacks, "configure_callbacks", kNoLog)                     \
  HOOK(kConfigureModel, "configure_model", kNoLog)                             \
  HOOK(kConfigureOptimizers, "configure_optimizers", kNoLog)                   \
  HOOK(kTrainDataloader, "train_dataloader", kNoLog)                           \
  HOOK(kValDataloaders, "val_dataloaders", kNoLog)                             \
  HOOK(kTestDataloaders, "test_dataloaders", kNoLog)                           \
  HOOK(kPredictDataloaders, "predict_dataloaders", kNoLog)                     \
  HOOK(kOnFitStart, "on_fit_start", kNoLog)                                    \
  HOOK(kOnSanityCheckStart, "on_sanity_check_start", kNoLog)                   \
  HOOK(kOnSanityCheckEnd, "on_sanity_check_end", kNoLog)                       \
  HOOK(kOnTrainStart, "on_train_start", kOnceAnEpoch)                          \
  HOOK(kOnTrainEpochStart, "on_train_epoch_start", kOnceAnEpoch)               \
  HOOK(kOnBeforeBatchTransfer, "on_before_batch_transfer", kNoLog)             \
  HOOK(kTransferBatchToDevice, "transfer_batch_to_device", kNoLog)             \
  HOOK(kOnAfterBatchTransfer, "on_after_batch_transfer", kNoLog)               \
  HOOK(kOnTrainBatchStart, "on_train_batch_start", kTrainBatch)                \
  HOOK(kTrainingStep, "training_step", kTrainBatch)                            \
  HOOK(kOnBeforeZeroGrad, "on_before_zero_grad", kTrainBatch)                  \
  HOOK(kOptimizerZeroGrad, "optimizer_zero_grad", kTrainBatch)                 \
  HOOK(kOnBeforeBackward, "on_before_backward", kTrainBatch)                   \
  HOOK(kBackward, "backward", kTrainBatch)                                     \
  HOOK(kOnAfterBackward, "on_after_backward", kTrainBatch)                     \
  HOOK(kOnBeforeOptimizerStep, "on_before_optimizer_step", kTrainBatch)        \
  HOOK(kConfigureGradientClipping, "configure_gradient_clipping", kTrainBatch) \
  HOOK(kOptimizerStep, "optimizer_step", kTrainBatch)                          \
  HOOK(kLrSchedulerStep, "lr_scheduler_step", kNoLog)                          \
  HOOK(kOnTrainBatchEnd, "on_train_batch_end", kTrainBatch)                    \
  HOOK(kOnTrainEpochEnd, "on_train_epoch_end", kOnceAnEpoch)                   \
  HOOK(kOnTrainEnd, "on_train_end", kNoLog)                                    \
  HOOK(kOnFitEnd, "on_fit_end", kNoLog)                                        \
  HOOK(kOnValidationModelZeroGrad, "on_validation_model_zero_grad", kNoLog)    \
  HOOK(kOnValidationModelEval, "on_validation_model_eval", kNoLog)             \
  HOOK(kOnValidationModelTrain, "on_validation_model_train", kNoLog)           \
  HOOK(kOnValidationStart, "on_validation_start", kOnceAnEpoch)                \
  HOOK(kOnValidationEpochStart, "on_validation_epoch_start", kOnceAnEpoch)     \
  HOOK(kOnValidationBatchStart, "on_validation_batch_start", kEvalBatch)       \
  HOOK(kValidationStep, "validation_step", kEvalBatch)                         \
  HOOK(kOnValidationBatchEnd, "on_validation_batch_end", kEvalBatch)           \
  HOOK(kOnValidationEpochEnd, "on_validation_epoch_end", kOnceAnEpoch)         \
  HOOK(kOnValidationEnd, "on_validation_end", kNoLog)                          \
  HOOK(kOnTestModelEval, "on_test_model_eval", kNoLog)                         \
  HOOK(kOnTestModelTrain, "on_test_model_train", kNoLog)                       \
  HOOK(kOnTestStart, "on_test_start", kOnceAnEpoch)                            \
  HOOK(kOnTestEpochStart, "on_test_epoch_start", kOnceAnEpoch)                 \
  HOOK(kOnTestBatchStart, "on_test_batch_start", kEvalBatch)                   \
  HOOK(kTestStep, "test_step", kEvalBatch)                                     \
  HOOK(kOnTestBatchEnd, "on_test_batch_end", kEvalBatch)                       \
  HOOK(kOnTestEpochEnd, "on_test_epoch_end", kOnceAnEpoch)                     \
  HOOK(kOnTestEnd, "on_test_end", kNoLog)                                      \
  HOOK(kOnPredictModelEval, "on_predict_model_eval", kNoLog)                   \
  HOOK(kOnPredictModelTrain, "on_predict_model_train", kNoLog)                 \
  HOOK(kOnPredictStart, "on_predict_start", kNoLog)                            \
  HOOK(kOnPredictEpochStart, "on_predict_epoch_start", kNoLog)                 \
  HOOK(kOnPredictBatchStart, "on_predict_batch_start", kNoLog)                 \
  HOOK(kPredictStep, "predict_step", kNoLog)                                   \
  HOOK(kOnPredictBatchEnd, "on_predict_batch_end", kNoLog)                     \
  HOOK(kOnPredictEpochEnd, "on_predict_epoch_end", kNoLog)                     \
  HOOK(kOnPredictEnd, "on_predict_end", kNoLog)                                \
  HOOK(kTeardown, "teardown", kNoLog)                                          \
  HOOK(kOnRankMetrics, "on_rank_metrics", kNoLog)                              \
  HOOK(kLogMetrics, "log_metrics", kNoLog)                                     \
  HOOK(kOnException, "on_exception", kNoLog)                                   \
  HOOK(kOnSaveCheckpoint, "on_save_checkpoint", kNoLog)                        \
  HOOK(kOnLoadCheckpoint, "on_load_checkpoint", kNoLog)                        \
  HOOK(kStateDict, "state_dict", kNoLog)                                       \
  HOOK(kLoadStateDict, "load_state_dict", kNoLog)

/// Every function that runs user code, by Lightning's names.
enum class Hook : std::uint8_t {
#define LEVIN_HOOK_NUMBER(number, name, policy) number,
  LEVIN_HOOKS(LEVIN_HOOK_NUMBER) kCount
#undef LEVIN_HOOK_NUMBER
};

/// "training_step", "on_train_epoch_end", …: the name of the function that the user overrides.
LEVIN_API std::string_view hook_name(Hook hook);

/// What log() may do in a hook, and its defaults for on_step and on_epoch.
struct LEVIN_API HookPolicy {
  bool may_log = false;
  bool default_on_step = false;
  bool default_on_epoch = false;
  /// on_step must be false and on_epoch true: the hook runs once an epoch.
  bool epoch_only = false;
};
LEVIN_API HookPolicy hook_policy(Hook hook);

/// Where a rank is, for the table of a stalled run and the record of a failure.
struct LEVIN_API Whereabouts {
  Stage stage = Stage::kTrain;
  Hook hook = Hook::kNone;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

/// "training_step (train, epoch 0, step 3)"; "between hooks (train, epoch 0, step 3)"; "before the first hook".
LEVIN_API std::string describe(const Whereabouts& where);
/// The same after a verb: "in training_step (…)", "between hooks (…)".
LEVIN_API std::string describe_place(const Whereabouts& where);

}  // namespace levin
