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

// Every hook: its number, the name of the function that a user overrides, what log() may do in it (hook.cpp), and the stage
// whose metrics log() adds to. Their order means nothing.
#define LEVIN_HOOKS(HOOK)                                                              \
  HOOK(kNone, "none", kNoLog, kTrain)                                                  \
  HOOK(kOutside, "code outside of levin", kNoLog, kTrain)                              \
  HOOK(kPrepareData, "prepare_data", kNoLog, kTrain)                                   \
  HOOK(kSetup, "setup", kNoLog, kTrain)                                                \
  HOOK(kConfigureCallbacks, "configure_callbacks", kNoLog, kTrain)                     \
  HOOK(kConfigureModel, "configure_model", kNoLog, kTrain)                             \
  HOOK(kConfigureOptimizers, "configure_optimizers", kNoLog, kTrain)                   \
  HOOK(kTrainDataloader, "train_dataloader", kNoLog, kTrain)                           \
  HOOK(kValDataloaders, "val_dataloaders", kNoLog, kTrain)                             \
  HOOK(kTestDataloaders, "test_dataloaders", kNoLog, kTrain)                           \
  HOOK(kPredictDataloaders, "predict_dataloaders", kNoLog, kTrain)                     \
  HOOK(kOnFitStart, "on_fit_start", kNoLog, kTrain)                                    \
  HOOK(kOnSanityCheckStart, "on_sanity_check_start", kNoLog, kTrain)                   \
  HOOK(kOnSanityCheckEnd, "on_sanity_check_end", kNoLog, kTrain)                       \
  HOOK(kOnTrainStart, "on_train_start", kOnceAnEpoch, kTrain)                          \
  HOOK(kOnTrainEpochStart, "on_train_epoch_start", kOnceAnEpoch, kTrain)               \
  HOOK(kOnBeforeBatchTransfer, "on_before_batch_transfer", kNoLog, kTrain)             \
  HOOK(kTransferBatchToDevice, "transfer_batch_to_device", kNoLog, kTrain)             \
  HOOK(kOnAfterBatchTransfer, "on_after_batch_transfer", kNoLog, kTrain)               \
  HOOK(kOnTrainBatchStart, "on_train_batch_start", kTrainBatch, kTrain)                \
  HOOK(kTrainingStep, "training_step", kTrainBatch, kTrain)                            \
  HOOK(kOnBeforeZeroGrad, "on_before_zero_grad", kTrainBatch, kTrain)                  \
  HOOK(kOptimizerZeroGrad, "optimizer_zero_grad", kTrainBatch, kTrain)                 \
  HOOK(kOnBeforeBackward, "on_before_backward", kTrainBatch, kTrain)                   \
  HOOK(kBackward, "backward", kTrainBatch, kTrain)                                     \
  HOOK(kOnAfterBackward, "on_after_backward", kTrainBatch, kTrain)                     \
  HOOK(kOnBeforeOptimizerStep, "on_before_optimizer_step", kTrainBatch, kTrain)        \
  HOOK(kConfigureGradientClipping, "configure_gradient_clipping", kTrainBatch, kTrain) \
  HOOK(kOptimizerStep, "optimizer_step", kTrainBatch, kTrain)                          \
  HOOK(kLrSchedulerStep, "lr_scheduler_step", kNoLog, kTrain)                          \
  HOOK(kOnTrainBatchEnd, "on_train_batch_end", kTrainBatch, kTrain)                    \
  HOOK(kOnTrainEpochEnd, "on_train_epoch_end", kOnceAnEpoch, kTrain)                   \
  HOOK(kOnTrainEnd, "on_train_end", kNoLog, kTrain)                                    \
  HOOK(kOnFitEnd, "on_fit_end", kNoLog, kTrain)                                        \
  HOOK(kOnValidationModelZeroGrad, "on_validation_model_zero_grad", kNoLog, kValidate) \
  HOOK(kOnValidationModelEval, "on_validation_model_eval", kNoLog, kValidate)          \
  HOOK(kOnValidationModelTrain, "on_validation_model_train", kNoLog, kValidate)        \
  HOOK(kOnValidationStart, "on_validation_start", kOnceAnEpoch, kValidate)             \
  HOOK(kOnValidationEpochStart, "on_validation_epoch_start", kOnceAnEpoch, kValidate)  \
  HOOK(kOnValidationBatchStart, "on_validation_batch_start", kEvalBatch, kValidate)    \
  HOOK(kValidationStep, "validation_step", kEvalBatch, kValidate)                      \
  HOOK(kOnValidationBatchEnd, "on_validation_batch_end", kEvalBatch, kValidate)        \
  HOOK(kOnValidationEpochEnd, "on_validation_epoch_end", kOnceAnEpoch, kValidate)      \
  HOOK(kOnValidationEnd, "on_validation_end", kNoLog, kValidate)                       \
  HOOK(kOnTestModelEval, "on_test_model_eval", kNoLog, kTest)                          \
  HOOK(kOnTestModelTrain, "on_test_model_train", kNoLog, kTest)                        \
  HOOK(kOnTestStart, "on_test_start", kOnceAnEpoch, kTest)                             \
  HOOK(kOnTestEpochStart, "on_test_epoch_start", kOnceAnEpoch, kTest)                  \
  HOOK(kOnTestBatchStart, "on_test_batch_start", kEvalBatch, kTest)                    \
  HOOK(kTestStep, "test_step", kEvalBatch, kTest)                                      \
  HOOK(kOnTestBatchEnd, "on_test_batch_end", kEvalBatch, kTest)                        \
  HOOK(kOnTestEpochEnd, "on_test_epoch_end", kOnceAnEpoch, kTest)                      \
  HOOK(kOnTestEnd, "on_test_end", kNoLog, kTest)                                       \
  HOOK(kOnPredictModelEval, "on_predict_model_eval", kNoLog, kPredict)                 \
  HOOK(kOnPredictModelTrain, "on_predict_model_train", kNoLog, kPredict)               \
  HOOK(kOnPredictStart, "on_predict_start", kNoLog, kPredict)                          \
  HOOK(kOnPredictEpochStart, "on_predict_epoch_start", kNoLog, kPredict)               \
  HOOK(kOnPredictBatchStart, "on_predict_batch_start", kNoLog, kPredict)               \
  HOOK(kPredictStep, "predict_step", kNoLog, kPredict)                                 \
  HOOK(kOnPredictBatchEnd, "on_predict_batch_end", kNoLog, kPredict)                   \
  HOOK(kOnPredictEpochEnd, "on_predict_epoch_end", kNoLog, kPredict)                   \
  HOOK(kOnPredictEnd, "on_predict_end", kNoLog, kPredict)                              \
  HOOK(kTeardown, "teardown", kNoLog, kTrain)                                          \
  HOOK(kOnRankMetrics, "on_rank_metrics", kNoLog, kTrain)                              \
  HOOK(kLogMetrics, "log_metrics", kNoLog, kTrain)                                     \
  HOOK(kOnException, "on_exception", kNoLog, kTrain)                                   \
  HOOK(kOnSaveCheckpoint, "on_save_checkpoint", kNoLog, kTrain)                        \
  HOOK(kOnLoadCheckpoint, "on_load_checkpoint", kNoLog, kTrain)                        \
  HOOK(kStateDict, "state_dict", kNoLog, kTrain)                                       \
  HOOK(kLoadStateDict, "load_state_dict", kNoLog, kTrain)

/// Every function that runs user code, by Lightning's names.
enum class Hook : std::uint8_t {
#define LEVIN_HOOK_NUMBER(number, name, policy, stage) number,
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
/// The stage whose metrics log() adds to in a hook.
LEVIN_API Stage hook_stage(Hook hook);

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
