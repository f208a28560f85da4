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

/// Every place at which user code runs, in the names of Lightning.
enum class Hook : std::uint8_t {
  kNone,
  kPrepareData,
  kSetup,
  kConfigureCallbacks,
  kConfigureModel,
  kConfigureOptimizers,
  kTrainDataloader,
  kValDataloaders,
  kTestDataloaders,
  kPredictDataloaders,
  kOnFitStart,
  kOnSanityCheckStart,
  kOnSanityCheckEnd,
  kOnTrainStart,
  kOnTrainEpochStart,
  kOnBeforeBatchTransfer,
  kTransferBatchToDevice,
  kOnAfterBatchTransfer,
  kOnTrainBatchStart,
  kTrainingStep,
  kOnBeforeZeroGrad,
  kOptimizerZeroGrad,
  kOnBeforeBackward,
  kBackward,
  kOnAfterBackward,
  kOnBeforeOptimizerStep,
  kConfigureGradientClipping,
  kOptimizerStep,
  kLrSchedulerStep,
  kOnTrainBatchEnd,
  kOnTrainEpochEnd,
  kOnTrainEnd,
  kOnFitEnd,
  kOnValidationModelZeroGrad,
  kOnValidationModelEval,
  kOnValidationModelTrain,
  kOnValidationStart,
  kOnValidationEpochStart,
  kOnValidationBatchStart,
  kValidationStep,
  kOnValidationBatchEnd,
  kOnValidationEpochEnd,
  kOnValidationEnd,
  kOnTestModelEval,
  kOnTestModelTrain,
  kOnTestStart,
  kOnTestEpochStart,
  kOnTestBatchStart,
  kTestStep,
  kOnTestBatchEnd,
  kOnTestEpochEnd,
  kOnTestEnd,
  kOnPredictModelEval,
  kOnPredictModelTrain,
  kOnPredictStart,
  kOnPredictEpochStart,
  kOnPredictBatchStart,
  kPredictStep,
  kOnPredictBatchEnd,
  kOnPredictEpochEnd,
  kOnPredictEnd,
  kTeardown,
  kOnRankMetrics,
  kLogMetrics,
  kOnException,
  kOnSaveCheckpoint,
  kOnLoadCheckpoint,
  kStateDict,
  kLoadStateDict,
  kCount
};

/// "training_step", "on_train_epoch_end", …: the name of the function that the user overrides.
LEVIN_API std::string_view hook_name(Hook hook);

/// What log() may do in a hook, and what it does when on_step and on_epoch are left open.
struct LEVIN_API HookPolicy {
  bool may_log = false;
  bool default_on_step = false;
  bool default_on_epoch = false;
  /// on_step must be false and on_epoch true: the hook runs once an epoch.
  bool epoch_only = false;
};
LEVIN_API HookPolicy hook_policy(Hook hook);

/// Where a rank is: what the table of a stalled run shows, and what the record of a failure says.
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
