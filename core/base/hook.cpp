#include "levin/core/base/hook.h"

#include <array>
#include <cstddef>

#include "levin/core/base/format.h"

namespace levin {

namespace {

constexpr HookPolicy kNoLog{};
constexpr HookPolicy kTrainBatch{.may_log = true, .default_on_step = true};
constexpr HookPolicy kEvalBatch{.may_log = true, .default_on_epoch = true};
constexpr HookPolicy kOnceAnEpoch{.may_log = true, .default_on_epoch = true, .epoch_only = true};

struct HookRow {
  Hook hook;
  std::string_view name;
  HookPolicy policy;
};

constexpr std::size_t kHooks = static_cast<std::size_t>(Hook::kCount);

// In the order of the enumeration, so that a hook is its own index.
constexpr std::array<HookRow, kHooks> kRows{{
    {Hook::kNone, "none", kNoLog},
    {Hook::kPrepareData, "prepare_data", kNoLog},
    {Hook::kSetup, "setup", kNoLog},
    {Hook::kConfigureCallbacks, "configure_callbacks", kNoLog},
    {Hook::kConfigureModel, "configure_model", kNoLog},
    {Hook::kConfigureOptimizers, "configure_optimizers", kNoLog},
    {Hook::kTrainDataloader, "train_dataloader", kNoLog},
    {Hook::kValDataloaders, "val_dataloaders", kNoLog},
    {Hook::kTestDataloaders, "test_dataloaders", kNoLog},
    {Hook::kPredictDataloaders, "predict_dataloaders", kNoLog},
    {Hook::kOnFitStart, "on_fit_start", kNoLog},
    {Hook::kOnSanityCheckStart, "on_sanity_check_start", kNoLog},
    {Hook::kOnSanityCheckEnd, "on_sanity_check_end", kNoLog},
    {Hook::kOnTrainStart, "on_train_start", kOnceAnEpoch},
    {Hook::kOnTrainEpochStart, "on_train_epoch_start", kOnceAnEpoch},
    {Hook::kOnBeforeBatchTransfer, "on_before_batch_transfer", kNoLog},
    {Hook::kTransferBatchToDevice, "transfer_batch_to_device", kNoLog},
    {Hook::kOnAfterBatchTransfer, "on_after_batch_transfer", kNoLog},
    {Hook::kOnTrainBatchStart, "on_train_batch_start", kTrainBatch},
    {Hook::kTrainingStep, "training_step", kTrainBatch},
    {Hook::kOnBeforeZeroGrad, "on_before_zero_grad", kTrainBatch},
    {Hook::kOptimizerZeroGrad, "optimizer_zero_grad", kTrainBatch},
    {Hook::kOnBeforeBackward, "on_before_backward", kTrainBatch},
    {Hook::kBackward, "backward", kTrainBatch},
    {Hook::kOnAfterBackward, "on_after_backward", kTrainBatch},
    {Hook::kOnBeforeOptimizerStep, "on_before_optimizer_step", kTrainBatch},
    {Hook::kConfigureGradientClipping, "configure_gradient_clipping", kTrainBatch},
    {Hook::kOptimizerStep, "optimizer_step", kTrainBatch},
    {Hook::kLrSchedulerStep, "lr_scheduler_step", kNoLog},
    {Hook::kOnTrainBatchEnd, "on_train_batch_end", kTrainBatch},
    {Hook::kOnTrainEpochEnd, "on_train_epoch_end", kOnceAnEpoch},
    {Hook::kOnTrainEnd, "on_train_end", kNoLog},
    {Hook::kOnFitEnd, "on_fit_end", kNoLog},
    {Hook::kOnValidationModelZeroGrad, "on_validation_model_zero_grad", kNoLog},
    {Hook::kOnValidationModelEval, "on_validation_model_eval", kNoLog},
    {Hook::kOnValidationModelTrain, "on_validation_model_train", kNoLog},
    {Hook::kOnValidationStart, "on_validation_start", kOnceAnEpoch},
    {Hook::kOnValidationEpochStart, "on_validation_epoch_start", kOnceAnEpoch},
    {Hook::kOnValidationBatchStart, "on_validation_batch_start", kEvalBatch},
    {Hook::kValidationStep, "validation_step", kEvalBatch},
    {Hook::kOnValidationBatchEnd, "on_validation_batch_end", kEvalBatch},
    {Hook::kOnValidationEpochEnd, "on_validation_epoch_end", kOnceAnEpoch},
    {Hook::kOnValidationEnd, "on_validation_end", kNoLog},
    {Hook::kOnTestModelEval, "on_test_model_eval", kNoLog},
    {Hook::kOnTestModelTrain, "on_test_model_train", kNoLog},
    {Hook::kOnTestStart, "on_test_start", kOnceAnEpoch},
    {Hook::kOnTestEpochStart, "on_test_epoch_start", kOnceAnEpoch},
    {Hook::kOnTestBatchStart, "on_test_batch_start", kEvalBatch},
    {Hook::kTestStep, "test_step", kEvalBatch},
    {Hook::kOnTestBatchEnd, "on_test_batch_end", kEvalBatch},
    {Hook::kOnTestEpochEnd, "on_test_epoch_end", kOnceAnEpoch},
    {Hook::kOnTestEnd, "on_test_end", kNoLog},
    {Hook::kOnPredictModelEval, "on_predict_model_eval", kNoLog},
    {Hook::kOnPredictModelTrain, "on_predict_model_train", kNoLog},
    {Hook::kOnPredictStart, "on_predict_start", kNoLog},
    {Hook::kOnPredictEpochStart, "on_predict_epoch_start", kNoLog},
    {Hook::kOnPredictBatchStart, "on_predict_batch_start", kNoLog},
    {Hook::kPredictStep, "predict_step", kNoLog},
    {Hook::kOnPredictBatchEnd, "on_predict_batch_end", kNoLog},
    {Hook::kOnPredictEpochEnd, "on_predict_epoch_end", kNoLog},
    {Hook::kOnPredictEnd, "on_predict_end", kNoLog},
    {Hook::kTeardown, "teardown", kNoLog},
    {Hook::kOnRankMetrics, "on_rank_metrics", kNoLog},
    {Hook::kLogMetrics, "log_metrics", kNoLog},
    {Hook::kOnException, "on_exception", kNoLog},
    {Hook::kOnSaveCheckpoint, "on_save_checkpoint", kNoLog},
    {Hook::kOnLoadCheckpoint, "on_load_checkpoint", kNoLog},
    {Hook::kStateDict, "state_dict", kNoLog},
    {Hook::kLoadStateDict, "load_state_dict", kNoLog},
}};

constexpr bool rows_follow_the_enumeration() {
  for (std::size_t index = 0; index < kHooks; ++index) {
    if (kRows[index].hook != static_cast<Hook>(index)) return false;
  }
  return true;
}
static_assert(rows_follow_the_enumeration());

}  // namespace

std::string_view stage_name(Stage stage) {
  switch (stage) {
    case Stage::kTrain:
      return "train";
    case Stage::kSanityCheck:
      return "sanity_check";
    case Stage::kValidate:
      return "validate";
    case Stage::kTest:
      return "test";
    case Stage::kPredict:
      return "predict";
  }
  return "unknown";
}

std::string_view hook_name(Hook hook) {
  const auto index = static_cast<std::size_t>(hook);
  return index < kHooks ? kRows[index].name : "unknown";
}

std::string describe(const Whereabouts& where) {
  if (where.epoch < 0) return "before the first hook";
  return format("{} ({}, epoch {}, step {})", where.hook == Hook::kNone ? "between hooks" : hook_name(where.hook),
                stage_name(where.stage), where.epoch, where.step);
}

std::string describe_place(const Whereabouts& where) { return (where.hook == Hook::kNone ? "" : "in ") + describe(where); }

HookPolicy hook_policy(Hook hook) {
  const auto index = static_cast<std::size_t>(hook);
  return index < kHooks ? kRows[index].policy : kNoLog;
}

}  // namespace levin
