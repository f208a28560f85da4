#pragma once

#include <cstdint>
#include <exception>
#include <functional>

#include "levin/core/callback.h"

namespace levin {

/// One function a hook, in the order of a run; those left out do nothing. Written with designated initializers.
struct LambdaCallbackOptions {
  using OnRun = std::function<void(Trainer&, Module&)>;
  using OnStage = std::function<void(Trainer&, Module&, Stage)>;
  using OnOptimizer = std::function<void(Trainer&, Module&, torch::optim::Optimizer&)>;
  using OnBatchStart = std::function<void(Trainer&, Module&, const Batch&, std::int64_t batch_idx)>;
  using OnBatchEnd = std::function<void(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx)>;
  using OnEvalBatchStart =
      std::function<void(Trainer&, Module&, const Batch&, std::int64_t batch_idx, std::int64_t dataloader_idx)>;
  using OnEvalBatchEnd = std::function<void(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx,
                                            std::int64_t dataloader_idx)>;
  using OnPredictBatchEnd = std::function<void(Trainer&, Module&, const Batch& prediction, const Batch&, std::int64_t batch_idx,
                                               std::int64_t dataloader_idx)>;

  OnStage setup = nullptr;
  OnRun on_fit_start = nullptr;
  OnRun on_sanity_check_start = nullptr;
  OnRun on_sanity_check_end = nullptr;
  OnRun on_train_start = nullptr;
  OnRun on_train_epoch_start = nullptr;
  OnBatchStart on_train_batch_start = nullptr;
  OnOptimizer on_before_zero_grad = nullptr;
  std::function<void(Trainer&, Module&, const at::Tensor& loss)> on_before_backward = nullptr;
  OnRun on_after_backward = nullptr;
  OnOptimizer on_before_optimizer_step = nullptr;
  OnBatchEnd on_train_batch_end = nullptr;
  OnRun on_train_epoch_end = nullptr;
  OnRun on_train_end = nullptr;
  OnRun on_fit_end = nullptr;
  OnRun on_validation_start = nullptr;
  OnRun on_validation_epoch_start = nullptr;
  OnEvalBatchStart on_validation_batch_start = nullptr;
  OnEvalBatchEnd on_validation_batch_end = nullptr;
  OnRun on_validation_epoch_end = nullptr;
  OnRun on_validation_end = nullptr;
  OnRun on_test_start = nullptr;
  OnRun on_test_epoch_start = nullptr;
  OnEvalBatchStart on_test_batch_start = nullptr;
  OnEvalBatchEnd on_test_batch_end = nullptr;
  OnRun on_test_epoch_end = nullptr;
  OnRun on_test_end = nullptr;
  OnRun on_predict_start = nullptr;
  OnRun on_predict_epoch_start = nullptr;
  OnEvalBatchStart on_predict_batch_start = nullptr;
  OnPredictBatchEnd on_predict_batch_end = nullptr;
  OnRun on_predict_epoch_end = nullptr;
  OnRun on_predict_end = nullptr;
  std::function<void(Trainer&, Module&, const MetricRow&, const std::vector<MetricMap>&)> on_rank_metrics = nullptr;
  std::function<void(Trainer&, Module&, const std::exception&)> on_exception = nullptr;
  std::function<void(Trainer&, Module&, Checkpoint&)> on_save_checkpoint = nullptr;
  std::function<void(Trainer&, Module&, const Checkpoint&)> on_load_checkpoint = nullptr;
  OnStage teardown = nullptr;
};

/// Runs the functions it is given, for a callback that is not worth a class. C++ only: YAML cannot name a function.
///
///     std::make_shared<levin::LambdaCallback>(levin::LambdaCallbackOptions{
///         .on_train_epoch_end = [](auto& trainer, auto&) { std::puts("…"); }});
class LambdaCallback final : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbackOptions functions);

  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void teardown(Trainer& trainer, Module& module, Stage stage) override;
  void on_fit_start(Trainer& trainer, Module& module) override;
  void on_fit_end(Trainer& trainer, Module& module) override;
  void on_sanity_check_start(Trainer& trainer, Module& module) override;
  void on_sanity_check_end(Trainer& trainer, Module& module) override;
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_train_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_before_zero_grad(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;
  void on_before_backward(Trainer& trainer, Module& module, const at::Tensor& loss) override;
  void on_after_backward(Trainer& trainer, Module& module) override;
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;
  void on_validation_start(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;
  void on_validation_epoch_start(Trainer& trainer, Module& module) override;
  void on_validation_epoch_end(Trainer& trainer, Module& module) override;
  void on_validation_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx,
                                 std::int64_t dataloader_idx) override;
  void on_validation_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                               std::int64_t batch_idx, std::int64_t dataloader_idx) override;
  void on_test_start(Trainer& trainer, Module& module) override;
  void on_test_end(Trainer& trainer, Module& module) override;
  void on_test_epoch_start(Trainer& trainer, Module& module) override;
  void on_test_epoch_end(Trainer& trainer, Module& module) override;
  void on_test_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx,
                           std::int64_t dataloader_idx) override;
  void on_test_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch, std::int64_t batch_idx,
                         std::int64_t dataloader_idx) override;
  void on_predict_start(Trainer& trainer, Module& module) override;
  void on_predict_end(Trainer& trainer, Module& module) override;
  void on_predict_epoch_start(Trainer& trainer, Module& module) override;
  void on_predict_epoch_end(Trainer& trainer, Module& module) override;
  void on_predict_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx,
                              std::int64_t dataloader_idx) override;
  void on_predict_batch_end(Trainer& trainer, Module& module, const Batch& prediction, const Batch& batch,
                            std::int64_t batch_idx, std::int64_t dataloader_idx) override;
  void on_rank_metrics(Trainer& trainer, Module& module, const MetricRow& row, const std::vector<MetricMap>& by_rank) override;
  void on_exception(Trainer& trainer, Module& module, const std::exception& error) override;
  void on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) override;
  void on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) override;

 private:
  LambdaCallbackOptions functions_;
};

}  // namespace levin
