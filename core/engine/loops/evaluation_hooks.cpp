#include "levin/core/engine/loops/evaluation_hooks.h"

namespace levin {

const EvaluationHooks& evaluation_hooks(Stage stage) {
  using C = Callback;
  using M = Module;
  static const EvaluationHooks validation{
      Hook::kValDataloaders,
      Hook::kOnValidationModelEval,
      &M::on_validation_model_eval,
      Hook::kOnValidationModelTrain,
      &M::on_validation_model_train,
      {Hook::kOnValidationStart, &C::on_validation_start, &M::on_validation_start},
      {Hook::kOnValidationEpochStart, &C::on_validation_epoch_start, &M::on_validation_epoch_start},
      {Hook::kOnValidationBatchStart, &C::on_validation_batch_start, &M::on_validation_batch_start},
      Hook::kValidationStep,
      &M::validation_step,
      {Hook::kOnValidationBatchEnd, &C::on_validation_batch_end, &M::on_validation_batch_end},
      {Hook::kOnValidationEpochEnd, &C::on_validation_epoch_end, &M::on_validation_epoch_end},
      {Hook::kOnValidationEnd, &C::on_validation_end, &M::on_validation_end}};
  static const EvaluationHooks test{Hook::kTestDataloaders,
                                    Hook::kOnTestModelEval,
                                    &M::on_test_model_eval,
                                    Hook::kOnTestModelTrain,
                                    &M::on_test_model_train,
                                    {Hook::kOnTestStart, &C::on_test_start, &M::on_test_start},
                                    {Hook::kOnTestEpochStart, &C::on_test_epoch_start, &M::on_test_epoch_start},
                                    {Hook::kOnTestBatchStart, &C::on_test_batch_start, &M::on_test_batch_start},
                                    Hook::kTestStep,
                                    &M::test_step,
                                    {Hook::kOnTestBatchEnd, &C::on_test_batch_end, &M::on_test_batch_end},
                                    {Hook::kOnTestEpochEnd, &C::on_test_epoch_end, &M::on_test_epoch_end},
                                    {Hook::kOnTestEnd, &C::on_test_end, &M::on_test_end}};
  static const EvaluationHooks prediction{Hook::kPredictDataloaders,
                                          Hook::kOnPredictModelEval,
                                          &M::on_predict_model_eval,
                                          Hook::kOnPredictModelTrain,
                                          &M::on_predict_model_train,
                                          {Hook::kOnPredictStart, &C::on_predict_start, &M::on_predict_start},
                                          {Hook::kOnPredictEpochStart, &C::on_predict_epoch_start, &M::on_predict_epoch_start},
                                          {Hook::kOnPredictBatchStart, &C::on_predict_batch_start, &M::on_predict_batch_start},
                                          Hook::kPredictStep,
                                          nullptr,
                                          {Hook::kOnPredictBatchEnd, nullptr, nullptr},
                                          {Hook::kOnPredictEpochEnd, &C::on_predict_epoch_end, &M::on_predict_epoch_end},
                                          {Hook::kOnPredictEnd, &C::on_predict_end, &M::on_predict_end}};
  switch (stage) {
    case Stage::kTest:
      return test;
    case Stage::kPredict:
      return prediction;
    default:
      return validation;
  }
}

}  // namespace levin
