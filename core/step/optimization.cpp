#include "levin/core/step/optimization.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <torch/optim/adagrad.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

void check_loss(const at::Tensor& loss) {
  if (loss.numel() != 1) {
    throw MisuseError(
        format("The loss has to be one number, but has the shape {}: take its mean() or sum().", c10::str(loss.sizes())));
  }
  if (loss.requires_grad()) return;
  throw MisuseError(
      "The loss depends on no parameter that requires a gradient, so nothing can be trained: return it as it was computed from "
      "the module's output, without detach(), item() or a NoGradGuard, and leave some parameters unfrozen.");
}

/// Skipping a division by one saves a device two operations. A loss in a weight's memory is copied, as the weight changes.
at::Tensor divided(const at::Tensor& loss, std::int64_t batches) {
  return batches == 1 && !loss.is_leaf() && !loss.is_view() ? loss : loss / static_cast<double>(batches);
}

/// LibTorch's Adagrad makes the state of parameters in its constructor, and has none for those that add_param_group() adds.
void complete_state(torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<torch::optim::Adagrad*>(&optimizer) == nullptr) return;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
      if (state != nullptr) continue;
      auto made = std::make_unique<torch::optim::AdagradParamState>();
      const double first = static_cast<const torch::optim::AdagradOptions&>(group.options()).initial_accumulator_value();
      made->step(0);
      made->sum(at::full_like(parameter, first, parameter.options().requires_grad(false), at::MemoryFormat::Preserve));
      state = std::move(made);
    }
  }
}

/// After a backward pass in which ranks met, replaces gradients by their mean over ranks. A parameter that no rank uses still
/// has no gradient afterwards.
void reduce_after_pass(const StepContext& step) {
  const std::vector<at::Tensor> parameters = step.parts.module->parameters();
  std::vector<std::byte> mine;
  for (const at::Tensor& parameter : parameters) mine.push_back(std::byte{parameter.grad().defined()});
  const std::vector<bool> used = marked_by_any(
      step.strategy, mine, {"which gradients ranks have", "all have reached the end of a backward pass in which they met"});
  step.strategy.reduce_gradients(*step.parts.module);
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    if (!used[index]) parameters[index].mutable_grad().reset();
  }
}

}  // namespace

Batch transfer_batch(HookRunner& hooks, MetricStore& metrics, const at::Device& device, const PrecisionPolicy& precision,
                     Batch batch, std::int64_t dataloader_idx, std::int64_t num_dataloaders) {
  batch = precision.convert_input(std::move(batch));
  batch = hooks.module(Hook::kOnBeforeBatchTransfer, &Module::on_before_batch_transfer, std::move(batch), dataloader_idx);
  batch =
      hooks.module(Hook::kTransferBatchToDevice, &Module::transfer_batch_to_device, std::move(batch), device, dataloader_idx);
  batch = hooks.module(Hook::kOnAfterBatchTransfer, &Module::on_after_batch_transfer, std::move(batch), dataloader_idx);
  metrics.begin_batch({batch.batch_size(), dataloader_idx, num_dataloaders});
  return batch;
}

void begin_step(Strategy& strategy, torch::optim::Optimizer& optimizer) {
  strategy.before_optimizer_step(optimizer);
  complete_state(optimizer);
}

void run_backward(const StepContext& step, StepVotes& votes, const at::Tensor& loss, bool synchronize) {
  check_loss(loss);
  step.leaves.check_loss(loss);
  step.nan.look_at_loss(loss);
  step.measures.norms.forget();
  step.hooks.run(Hook::kOnBeforeBackward, &Callback::on_before_backward, &Module::on_before_backward, loss);
  const bool reduces = synchronize && step.strategy.world_size() > 1;
  // Ranks that wait for one another within the pass must not wait in a reduction at the same time.
  const bool meets = step.gathered.any();
  if (reduces) votes.publish();
  step.strategy.before_backward(loss, synchronize && !meets);
  {
    const WorkScope work(step.work, Work::kBackward);
    step.hooks.module(Hook::kBackward, &Module::backward, meets ? step.gathered.tied(loss) : loss);
    if (reduces) {
      meets ? reduce_after_pass(step) : step.strategy.after_backward(*step.parts.module);
      votes.collect();
    }
  }
  step.hooks.run(Hook::kOnAfterBackward, &Callback::on_after_backward, &Module::on_after_backward);
}

StepOutput AutomaticOptimization::run(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool take_step) {
  output_ = {};
  GradientWindow& window = step_.accumulation.window;
  if (first_of_window) {
    window = {};
    step_.measures.losses.restart();
  }
  const auto closure = [&] { return forward_backward(batch, batch_idx, first_of_window, take_step); };
  if (!take_step) {
    closure();
    window = {.open = true, .weight = votes_.gradient_weight()};
    return std::move(output_);
  }
  torch::optim::Optimizer& optimizer = *step_.parts.optimizers.front();
  step_.graph.take(step_.parts.optimizers.front());
  step_.hooks.module(Hook::kOptimizerStep, &Module::optimizer_step, optimizer, std::function<at::Tensor()>([&] {
                       const at::Tensor loss = loss_for(optimizer, closure());
                       prepare_step(optimizer);
                       return loss;
                     }));
  step_.strategy.after_optimizer_step(optimizer);
  window = {};
  ++step_.progress.global_step;
  return std::move(output_);
}

at::Tensor AutomaticOptimization::forward_backward(const Batch* batch, std::int64_t batch_idx, bool first_of_window,
                                                   bool synchronize) {
  const at::AutoGradMode with_gradients(true);
  torch::optim::Optimizer& optimizer = *step_.parts.optimizers.front();
  if (first_of_window) step_.strategy.synchronize_buffers(*step_.parts.module);
  if (batch != nullptr) {
    const PrecisionPolicy::Forward forward(precision_);
    const WorkScope work(step_.work, Work::kForward);
    const auto step = [&](Module& module) {
      return step_.closure ? step_.closure(*batch) : step_.graph.run(module, *batch, batch_idx);
    };
    output_ = step_.hooks.module(Hook::kTrainingStep, step);
  }
  const bool has_loss = batch != nullptr && output_.loss.defined();
  GradientWindow& window = step_.accumulation.window;
  const int world_size = step_.strategy.world_size();
  const std::int64_t weight = has_loss ? step_.accumulation.weight_of(batch->batch_size(), world_size) : 0;
  votes_.set_gradient_weight(static_cast<std::int32_t>(window.weight + weight));
  at::Tensor loss = has_loss ? divided(output_.loss, step_.accumulation.batches) : at::Tensor();
  if (first_of_window) {
    step_.hooks.run(Hook::kOnBeforeZeroGrad, &Callback::on_before_zero_grad, &Module::on_before_zero_grad, optimizer);
    step_.hooks.module(Hook::kOptimizerZeroGrad, &Module::optimizer_zero_grad, optimizer);
  }
  window.in_backward = true;
  if (has_loss) {
    step_.measures.losses.add(output_.loss, static_cast<double>(weight));
    output_.loss = loss.detach();
    if (const std::int64_t full = step_.accumulation.full_weight(world_size); weight != full) {
      loss = loss * (static_cast<double>(weight) / static_cast<double>(full));
    }
    run_backward(step_, votes_, step_.scaler.scale(loss), synchronize);
    return output_.loss;
  }
  step_.measures.norms.forget();
  const bool meets = step_.gathered.any();
  if (meets) {
    const at::Tensor tied = step_.gathered.tied({});
    if (tied.defined()) tied.backward();
  }
  if (synchronize && world_size > 1) {
    votes_.publish();
    meets ? reduce_after_pass(step_) : step_.strategy.backward_without_batch(*step_.parts.module);
    votes_.collect();
  }
  return loss;
}

void AutomaticOptimization::prepare_step(torch::optim::Optimizer& optimizer) {
  const std::int64_t weight = votes_.reduced() ? votes_.agreed().gradient_weight : votes_.gradient_weight();
  ++steps_.taken;
  if (weight != 0) ++steps_.with_loss;
  if (weight == 0) {
    zero_grad(optimizer);
  } else if (const double factor = step_.accumulation.correction(weight, step_.strategy.world_size()); factor != 1.0) {
    scale_gradients(optimizer, factor);
  }
  step_.scaler.unscale(optimizer);
  step_.nan.skips_step(optimizer, *step_.parts.module);  // cleared gradients change nothing
  step_.hooks.run(Hook::kOnBeforeOptimizerStep, &Callback::on_before_optimizer_step, &Module::on_before_optimizer_step,
                  optimizer);
  step_.hooks.module(Hook::kConfigureGradientClipping, &Module::configure_gradient_clipping, optimizer);
  begin_step(step_.strategy, optimizer);
}

at::Tensor AutomaticOptimization::loss_for(const torch::optim::Optimizer& optimizer, const at::Tensor& loss) {
  if (step_.strategy.world_size() == 1 || steps_parameters_alone(optimizer)) return loss;
  const double weight = loss.defined() ? static_cast<double>(votes_.gradient_weight()) : 0;
  const std::array<double, 2> mine = {loss.defined() ? loss.item<double>() * weight : 0, weight};
  const ExchangeSite site("the loss of a step", "all have the same optimizer, and it decides by the result");
  double all_losses = 0;
  double all_weights = 0;
  for (const auto& [its_loss, its_weight] : RankExchange(step_.strategy.control_group()).gather_values(mine, site)) {
    all_losses += its_loss;
    all_weights += its_weight;
  }
  return at::full({}, all_weights > 0 ? all_losses / all_weights : 0, at::TensorOptions(at::kDouble));
}

void StepVotes::publish() {
  Votes mine = boundaries_.votes();
  mine.gradient_weight = gradient_weight_;
  mine.parameters_changed = parameters_.changed();
  mine.loss_is_bad = nan_.votes_against();
  channel_.publish(sequence_, mine);
}

void StepVotes::collect() {
  const std::vector<Votes> by_rank = channel_.read(sequence_);
  collected_ = boundaries_.adopt(by_rank);
  nan_.adopt(by_rank);
  ++sequence_;
  // Every rank reaches this because each has the votes of all ranks.
  if (collected_->parameters_changed) parameters_.agree(/*after_reduction=*/true);
}

}  // namespace levin
