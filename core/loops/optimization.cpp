#include "levin/core/loops/optimization.h"

#include <torch/optim/optimizer.h>

#include <algorithm>

#include "levin/core/loops/gradients.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

std::int64_t window_scale(const LoopState& state) {
  return std::max<std::int64_t>(1, state.full_batch_size) * state.accumulate_grad_batches;
}

void run_backward(Trainer::Runtime& runtime, StepVotes& votes, const at::Tensor& loss, bool synchronize) {
  HookRunner hooks(runtime);
  hooks.run(Hook::kOnBeforeBackward, &Callback::on_before_backward, &Module::on_before_backward, loss);
  const bool reduces = synchronize && runtime.world_size() > 1;
  if (reduces) votes.publish();
  runtime.strategy->before_backward(loss, synchronize);
  hooks.module(Hook::kBackward, &Module::backward, loss);
  if (reduces) runtime.strategy->after_backward(*runtime.module);
  hooks.run(Hook::kOnAfterBackward, &Callback::on_after_backward, &Module::on_after_backward);
  if (reduces) votes.collect();
}

StepOutput AutomaticOptimization::run(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool take_step) {
  output_ = {};
  GradientWindow& window = runtime_.state.window;
  if (first_of_window) window = {};
  const auto closure = [&] { return forward_backward(batch, batch_idx, first_of_window, take_step); };
  if (!take_step) {
    closure();
    window = {.open = true, .weight = votes_.gradient_weight()};
    return std::move(output_);
  }
  torch::optim::Optimizer& optimizer = *runtime_.optimizers.front();
  hooks_.module(Hook::kOptimizerStep, &Module::optimizer_step, optimizer, std::function<at::Tensor()>([&] {
                  at::Tensor loss = closure();
                  prepare_step(optimizer);
                  return loss;
                }));
  window = {};
  ++runtime_.state.global_step;
  return std::move(output_);
}

at::Tensor AutomaticOptimization::forward_backward(const Batch* batch, std::int64_t batch_idx, bool first_of_window,
                                                   bool synchronize) {
  const at::AutoGradMode with_gradients(true);
  torch::optim::Optimizer& optimizer = *runtime_.optimizers.front();
  if (first_of_window) runtime_.strategy->synchronize_buffers(*runtime_.module);
  if (batch != nullptr) {
    const Precision::Forward forward(precision_);
    output_ = hooks_.module(Hook::kTrainingStep, &Module::training_step, *batch, batch_idx);
  }
  const bool has_loss = output_.loss.defined();
  GradientWindow& window = runtime_.state.window;
  votes_.set_gradient_weight(static_cast<std::int32_t>(window.weight + (has_loss ? weight_of(*batch) : 0)));
  at::Tensor loss = has_loss ? output_.loss / static_cast<double>(runtime_.state.accumulate_grad_batches) : at::Tensor();
  if (first_of_window) {
    hooks_.run(Hook::kOnBeforeZeroGrad, &Callback::on_before_zero_grad, &Module::on_before_zero_grad, optimizer);
    hooks_.module(Hook::kOptimizerZeroGrad, &Module::optimizer_zero_grad, optimizer);
  }
  window.in_backward = true;
  if (has_loss) {
    output_.loss = loss.detach();
    if (const std::int64_t weight = weight_of(*batch); weight != full_weight()) {
      loss = loss * (static_cast<double>(weight) / static_cast<double>(full_weight()));
    }
    run_backward(runtime_, votes_, loss, synchronize);
    return output_.loss;
  }
  if (synchronize && runtime_.world_size() > 1) {
    votes_.publish();
    runtime_.strategy->backward_without_batch(*runtime_.module);
    votes_.collect();
  }
  return loss;
}

std::int64_t AutomaticOptimization::full_weight() const {
  // One process that steps after every batch has nothing to weigh one batch against.
  const bool alone = runtime_.world_size() == 1 && runtime_.state.accumulate_grad_batches == 1;
  return alone || runtime_.state.full_batch_size == 0 ? 1 : runtime_.state.full_batch_size;
}

std::int64_t AutomaticOptimization::weight_of(const Batch& batch) const { return full_weight() == 1 ? 1 : batch.batch_size(); }

void AutomaticOptimization::prepare_step(torch::optim::Optimizer& optimizer) {
  // The reduction gives the sum over ranks divided by the number of ranks, and each loss was divided by
  // accumulate_grad_batches: the mean over a full window of full batches on every rank. What is missing of that is made good.
  const std::int64_t full = full_weight() * runtime_.state.accumulate_grad_batches * runtime_.world_size();
  const std::int64_t actual = votes_.reduced() ? votes_.agreed().gradient_weight : votes_.gradient_weight();
  if (actual == 0) {
    zero_grad(optimizer);
  } else if (actual != full) {
    scale_gradients(optimizer, static_cast<double>(full) / static_cast<double>(actual));
  }
  hooks_.run(Hook::kOnBeforeOptimizerStep, &Callback::on_before_optimizer_step, &Module::on_before_optimizer_step, optimizer);
  hooks_.module(Hook::kConfigureGradientClipping, &Module::configure_gradient_clipping, optimizer);
}

}  // namespace levin
