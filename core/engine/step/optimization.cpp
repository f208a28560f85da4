#include "levin/core/engine/step/optimization.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <torch/optim/adagrad.h>

#include <memory>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/engine/step/gradients.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

namespace {

void check_loss(const at::Tensor& loss) {
  if (loss.numel() != 1) {
    throw MisuseError(
        format("The loss has to be one number, but has the shape {}: take its mean() or sum().", c10::str(loss.sizes())));
  }
  if (loss.requires_grad()) return;
  throw MisuseError(
      "The loss depends on no parameter that requires a gradient, so that nothing can be trained: return it as it was computed "
      "from the module's output, without detach(), item() or a NoGradGuard, and leave some parameters unfrozen.");
}

/// LibTorch's Adagrad makes the state of parameters when it is made, and has none of those that add_param_group() brings.
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

}  // namespace

void begin_step(Strategy& strategy, torch::optim::Optimizer& optimizer) {
  strategy.before_optimizer_step(optimizer);
  complete_state(optimizer);
}

void run_backward(HookRunner& hooks, Strategy& strategy, Module& module, StepVotes& votes, NanGuard& nan,
                  UnregisteredLeaves& leaves, const at::Tensor& loss, bool synchronize) {
  check_loss(loss);
  leaves.look_at_loss(loss);
  nan.look_at_loss(loss);
  hooks.run(Hook::kOnBeforeBackward, &Callback::on_before_backward, &Module::on_before_backward, loss);
  const bool reduces = synchronize && strategy.world_size() > 1;
  if (reduces) votes.publish();
  strategy.before_backward(loss, synchronize);
  hooks.module(Hook::kBackward, &Module::backward, loss);
  if (reduces) {
    strategy.after_backward(module);
    votes.collect();
  }
  hooks.run(Hook::kOnAfterBackward, &Callback::on_after_backward, &Module::on_after_backward);
}

StepOutput AutomaticOptimization::run(const Batch* batch, std::int64_t batch_idx, bool first_of_window, bool take_step) {
  output_ = {};
  GradientWindow& window = accumulation_.window;
  if (first_of_window) window = {};
  const auto closure = [&] { return forward_backward(batch, batch_idx, first_of_window, take_step); };
  if (!take_step) {
    closure();
    window = {.open = true, .weight = votes_.gradient_weight()};
    return std::move(output_);
  }
  torch::optim::Optimizer& optimizer = *parts_.optimizers.front();
  hooks_.module(Hook::kOptimizerStep, &Module::optimizer_step, optimizer, std::function<at::Tensor()>([&] {
                  ++window.evaluations;
                  const at::Tensor loss = loss_for(optimizer, closure());
                  prepare_step(optimizer);
                  return loss;
                }));
  strategy_.after_optimizer_step(optimizer);
  window = {};
  ++progress_.global_step;
  return std::move(output_);
}

at::Tensor AutomaticOptimization::forward_backward(const Batch* batch, std::int64_t batch_idx, bool first_of_window,
                                                   bool synchronize) {
  const at::AutoGradMode with_gradients(true);
  torch::optim::Optimizer& optimizer = *parts_.optimizers.front();
  if (first_of_window) strategy_.synchronize_buffers(*parts_.module);
  if (batch != nullptr) {
    const Precision::Forward forward(precision_);
    const auto step = [&](Module& module) { return graph_.run(module, *batch, batch_idx); };
    output_ = hooks_.module(Hook::kTrainingStep, step);
  }
  const bool has_loss = batch != nullptr && output_.loss.defined();
  GradientWindow& window = accumulation_.window;
  const int world_size = strategy_.world_size();
  const std::int64_t weight = has_loss ? accumulation_.weight_of(batch->batch_size(), world_size) : 0;
  votes_.set_gradient_weight(static_cast<std::int32_t>(window.weight + weight));
  at::Tensor loss = has_loss ? output_.loss / static_cast<double>(accumulation_.batches) : at::Tensor();
  if (first_of_window) {
    hooks_.run(Hook::kOnBeforeZeroGrad, &Callback::on_before_zero_grad, &Module::on_before_zero_grad, optimizer);
    hooks_.module(Hook::kOptimizerZeroGrad, &Module::optimizer_zero_grad, optimizer);
  }
  window.in_backward = true;
  if (has_loss) {
    output_.loss = loss.detach();
    if (const std::int64_t full = accumulation_.full_weight(world_size); weight != full) {
      loss = loss * (static_cast<double>(weight) / static_cast<double>(full));
    }
    run_backward(hooks_, strategy_, *parts_.module, votes_, nan_, leaves_, scaler_.scale(loss), synchronize);
    return output_.loss;
  }
  if (synchronize && world_size > 1) {
    votes_.publish();
    strategy_.backward_without_batch(*parts_.module);
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
  } else if (const double factor = accumulation_.correction(weight, strategy_.world_size()); factor != 1.0) {
    scale_gradients(optimizer, factor);
  }
  scaler_.unscale(optimizer);
  nan_.skips_step(optimizer, *parts_.module);  // gradients that are cleared change nothing
  hooks_.run(Hook::kOnBeforeOptimizerStep, &Callback::on_before_optimizer_step, &Module::on_before_optimizer_step, optimizer);
  hooks_.module(Hook::kConfigureGradientClipping, &Module::configure_gradient_clipping, optimizer);
  begin_step(strategy_, optimizer);
}

at::Tensor AutomaticOptimization::loss_for(const torch::optim::Optimizer& optimizer, const at::Tensor& loss) {
  if (strategy_.world_size() == 1 || steps_parameters_alone(optimizer)) return loss;
  struct Share {
    double loss = 0;
    double weight = 0;
  };
  const double weight = loss.defined() ? static_cast<double>(votes_.gradient_weight()) : 0;
  const Share mine{loss.defined() ? loss.item<double>() * weight : 0, weight};
  const Meeting meeting("the loss of a step", "all have the same optimizer, and it decides by what they all get here");
  Share all;
  for (const Share& share : RankExchange(strategy_.control_group()).gather_values(mine, meeting)) {
    all.loss += share.loss;
    all.weight += share.weight;
  }
  return at::full({}, all.weight > 0 ? all.loss / all.weight : 0, at::TensorOptions(at::kDouble));
}

}  // namespace levin
