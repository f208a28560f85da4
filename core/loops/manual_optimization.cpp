#include "levin/core/loops/manual_optimization.h"

#include "levin/core/loops/optimization.h"

namespace levin {

ManualOptimization::ManualOptimization(Trainer& trainer) : trainer_(trainer) {
  if (trainer.runtime().step_votes == nullptr) {
    throw MisuseError("manual_backward and step_optimizer work during training only, not in " +
                      std::string(hook_name(trainer.runtime().state.hook)) + ".");
  }
  if (trainer.runtime().module->automatic_optimization()) {
    throw MisuseError(
        "manual_backward and step_optimizer need set_automatic_optimization(false) in the module's constructor; otherwise the "
        "Trainer does both.");
  }
}

void ManualOptimization::backward(const at::Tensor& loss, bool synchronize) {
  trainer_.runtime().state.window.in_backward = true;
  run_backward(trainer_.runtime(), *trainer_.runtime().step_votes, loss, synchronize);
  // Until ranks reduce them, gradients are each rank's own.
  trainer_.runtime().state.window.open = !synchronize;
}

void ManualOptimization::step(std::size_t index) {
  Trainer::Runtime& runtime = trainer_.runtime();
  torch::optim::Optimizer& optimizer = runtime.module->optimizer(index);
  HookRunner(runtime).run(Hook::kOnBeforeOptimizerStep, &Callback::on_before_optimizer_step, &Module::on_before_optimizer_step,
                          optimizer);
  optimizer.step();
  ++runtime.state.global_step;
}

}  // namespace levin
