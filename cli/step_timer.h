#pragma once

#include <cstdint>
#include <vector>

#include "levin/cli/step_times.h"
#include "levin/core/callback.h"

namespace levin::cli {

/// Times the steps of a fit, but for the first ones.
class StepTimer final : public Callback {
 public:
  explicit StepTimer(std::int64_t warm_up) : left_(warm_up) {}
  const std::vector<StepTimes>& steps() const { return steps_; }

  void on_train_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx) override;
  void on_before_backward(Trainer& trainer, Module& module, const at::Tensor& loss) override;
  void on_after_backward(Trainer& trainer, Module& module) override;
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  std::int64_t left_;
  double last_end_ = 0;
  double batch_start_ = 0;
  double backward_start_ = 0;
  double backward_end_ = 0;
  double optimizer_start_ = 0;
  std::vector<StepTimes> steps_;
};

}  // namespace levin::cli
