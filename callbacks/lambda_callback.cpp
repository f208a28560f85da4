#include "levin/callbacks/lambda_callback.h"

#include <utility>

namespace levin {

LambdaCallback::LambdaCallback(LambdaCallbackOptions functions) : functions_(std::move(functions)) {}

void LambdaCallback::setup(Trainer& trainer, Module& module, Stage stage) {
  if (functions_.setup) functions_.setup(trainer, module, stage);
}
void LambdaCallback::teardown(Trainer& trainer, Module& module, Stage stage) {
  if (functions_.teardown) functions_.teardown(trainer, module, stage);
}
void LambdaCallback::on_fit_start(Trainer& trainer, Module& module) {
  if (functions_.on_fit_start) functions_.on_fit_start(trainer, module);
}
void LambdaCallback::on_fit_end(Trainer& trainer, Module& module) {
  if (functions_.on_fit_end) functions_.on_fit_end(trainer, module);
}
void LambdaCallback::on_sanity_check_start(Trainer& trainer, Module& module) {
  if (functions_.on_sanity_check_start) functions_.on_sanity_check_start(trainer, module);
}
void LambdaCallback::on_sanity_check_end(Trainer& trainer, Module& module) {
  if (functions_.on_sanity_check_end) functions_.on_sanity_check_end(trainer, module);
}
void LambdaCallback::on_train_start(Trainer& trainer, Module& module) {
  if (functions_.on_train_start) functions_.on_train_start(trainer, module);
}
void LambdaCallback::on_train_end(Trainer& trainer, Module& module) {
  if (functions_.on_train_end) functions_.on_train_end(trainer, module);
}
void LambdaCallback::on_train_epoch_start(Trainer& trainer, Module& module) {
  if (functions_.on_train_epoch_start) functions_.on_train_epoch_start(trainer, module);
}
void LambdaCallback::on_train_epoch_end(Trainer& trainer, Module& module) {
  if (functions_.on_train_epoch_end) functions_.on_train_epoch_end(trainer, module);
}
void LambdaCallback::on_train_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx) {
  if (functions_.on_train_batch_start) functions_.on_train_batch_start(trainer, module, batch, batch_idx);
}
void LambdaCallback::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                                        std::int64_t batch_idx) {
  if (functions_.on_train_batch_end) functions_.on_train_batch_end(trainer, module, output, batch, batch_idx);
}
void LambdaCallback::on_before_zero_grad(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) {
  if (functions_.on_before_zero_grad) functions_.on_before_zero_grad(trainer, module, optimizer);
}
void LambdaCallback::on_before_backward(Trainer& trainer, Module& module, const at::Tensor& loss) {
  if (functions_.on_before_backward) functions_.on_before_backward(trainer, module, loss);
}
void LambdaCallback::on_after_backward(Trainer& trainer, Module& module) {
  if (functions_.on_after_backward) functions_.on_after_backward(trainer, module);
}
void LambdaCallback::on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) {
  if (functions_.on_before_optimizer_step) functions_.on_before_optimizer_step(trainer, module, optimizer);
}
void LambdaCallback::on_validation_start(Trainer& trainer, Module& module) {
  if (functions_.on_validation_start) functions_.on_validation_start(trainer, module);
}
void LambdaCallback::on_validation_end(Trainer& trainer, Module& module) {
  if (functions_.on_validation_end) functions_.on_validation_end(trainer, module);
}
void LambdaCallback::on_validation_epoch_start(Trainer& trainer, Module& module) {
  if (functions_.on_validation_epoch_start) functions_.on_validation_epoch_start(trainer, module);
}
void LambdaCallback::on_validation_epoch_end(Trainer& trainer, Module& module) {
  if (functions_.on_validation_epoch_end) functions_.on_validation_epoch_end(trainer, module);
}
void LambdaCallback::on_validation_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx,
                                               std::int64_t dataloader_idx) {
  if (functions_.on_validation_batch_start)
    functions_.on_validation_batch_start(trainer, module, batch, batch_idx, dataloader_idx);
}
void LambdaCallback::on_validation_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                                             std::int64_t batch_idx, std::int64_t dataloader_idx) {
  if (functions_.on_validation_batch_end)
    functions_.on_validation_batch_end(trainer, module, output, batch, batch_idx, dataloader_idx);
}
void LambdaCallback::on_test_start(Trainer& trainer, Module& module) {
  if (functions_.on_test_start) functions_.on_test_start(trainer, module);
}
void LambdaCallback::on_test_end(Trainer& trainer, Module& module) {
  if (functions_.on_test_end) functions_.on_test_end(trainer, module);
}
void LambdaCallback::on_test_epoch_start(Trainer& trainer, Module& module) {
  if (functions_.on_test_epoch_start) functions_.on_test_epoch_start(trainer, module);
}
void LambdaCallback::on_test_epoch_end(Trainer& trainer, Module& module) {
  if (functions_.on_test_epoch_end) functions_.on_test_epoch_end(trainer, module);
}
void LambdaCallback::on_test_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx,
                                         std::int64_t dataloader_idx) {
  if (functions_.on_test_batch_start) functions_.on_test_batch_start(trainer, module, batch, batch_idx, dataloader_idx);
}
void LambdaCallback::on_test_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                                       std::int64_t batch_idx, std::int64_t dataloader_idx) {
  if (functions_.on_test_batch_end) functions_.on_test_batch_end(trainer, module, output, batch, batch_idx, dataloader_idx);
}
void LambdaCallback::on_predict_start(Trainer& trainer, Module& module) {
  if (functions_.on_predict_start) functions_.on_predict_start(trainer, module);
}
void LambdaCallback::on_predict_end(Trainer& trainer, Module& module) {
  if (functions_.on_predict_end) functions_.on_predict_end(trainer, module);
}
void LambdaCallback::on_predict_epoch_start(Trainer& trainer, Module& module) {
  if (functions_.on_predict_epoch_start) functions_.on_predict_epoch_start(trainer, module);
}
void LambdaCallback::on_predict_epoch_end(Trainer& trainer, Module& module) {
  if (functions_.on_predict_epoch_end) functions_.on_predict_epoch_end(trainer, module);
}
void LambdaCallback::on_predict_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx,
                                            std::int64_t dataloader_idx) {
  if (functions_.on_predict_batch_start) functions_.on_predict_batch_start(trainer, module, batch, batch_idx, dataloader_idx);
}
void LambdaCallback::on_predict_batch_end(Trainer& trainer, Module& module, const Batch& prediction, const Batch& batch,
                                          std::int64_t batch_idx, std::int64_t dataloader_idx) {
  if (functions_.on_predict_batch_end)
    functions_.on_predict_batch_end(trainer, module, prediction, batch, batch_idx, dataloader_idx);
}
void LambdaCallback::on_rank_metrics(Trainer& trainer, Module& module, const MetricRow& row,
                                     const std::vector<MetricMap>& by_rank) {
  if (functions_.on_rank_metrics) functions_.on_rank_metrics(trainer, module, row, by_rank);
}
void LambdaCallback::on_exception(Trainer& trainer, Module& module, const std::exception& error) {
  if (functions_.on_exception) functions_.on_exception(trainer, module, error);
}
void LambdaCallback::on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) {
  if (functions_.on_save_checkpoint) functions_.on_save_checkpoint(trainer, module, checkpoint);
}
void LambdaCallback::on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) {
  if (functions_.on_load_checkpoint) functions_.on_load_checkpoint(trainer, module, checkpoint);
}

}  // namespace levin
