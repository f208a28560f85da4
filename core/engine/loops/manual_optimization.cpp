#include "levin/core/engine/loops/manual_optimization.h"

#include <algorithm>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/engine/step/optimization.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

/// Before the first manual_backward(); somebody may have called backward() himself.
void warn_without_gradient(const torch::optim::Optimizer& optimizer) {
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  if (std::any_of(parameters.begin(), parameters.end(), [](const at::Tensor& one) { return one.grad().defined(); })) return;
  Console::instance().warn_once(
      "step_optimizer() found no gradient to step by, so it changed nothing: call manual_backward(loss) before it.",
      "a step without gradients", Speaker::kRun);
}

}  // namespace

ManualOptimization::ManualOptimization(const Trainer& trainer) : run_(TrainerState::of(trainer)) {
  if (run_.step_votes == nullptr) {
    throw MisuseError("manual_backward and step_optimizer work during training only, not in " +
                      std::string(hook_name(run_.tracker.hook())) + ".");
  }
  if (run_.module().automatic_optimization()) {
    throw MisuseError(
        "manual_backward and step_optimizer need set_automatic_optimization(false) in the module's constructor; otherwise the "
        "Trainer does both.");
  }
}

void ManualOptimization::backward(const at::Tensor& loss, bool synchronize) {
  run_.accumulation.window.in_backward = true;
  run_backward(run_.step_context(), *run_.step_votes, run_.scaler.scale(loss), synchronize);
  // Until ranks reduce them, gradients are each rank's own.
  run_.accumulation.window.open = !synchronize;
}

void ManualOptimization::step(std::size_t index) {
  torch::optim::Optimizer& optimizer = run_.module().optimizer(index);
  if (!run_.leaves.saw_loss()) warn_without_gradient(optimizer);
  run_.scaler.unscale(optimizer);
  if (run_.nan.skips_step(optimizer, run_.module())) return;
  run_.hooks.run(Hook::kOnBeforeOptimizerStep, &Callback::on_before_optimizer_step, &Module::on_before_optimizer_step,
                 optimizer);
  begin_step(run_.strategy(), optimizer);
  optimizer.step();
  run_.strategy().after_optimizer_step(optimizer);
  ++run_.progress.global_step;
}

void ManualOptimization::toggle(std::size_t index) {
  run_.module().optimizer(index);  // throws for one that there is not
  if (const auto other = run_.trained.toggled()) {
    throw MisuseError(
        format("toggle_optimizer({}): optimizer {} is toggled. Call untoggle_optimizer({}) first.", index, *other, *other));
  }
  run_.trained.toggle(index);
}

void ManualOptimization::untoggle(std::size_t index) {
  if (run_.trained.toggled() != index) {
    throw MisuseError(
        format("untoggle_optimizer({}): this optimizer is not toggled. Call toggle_optimizer({}) before.", index, index));
  }
  run_.trained.untoggle();
}

}  // namespace levin
