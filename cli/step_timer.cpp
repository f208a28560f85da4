#include "levin/cli/step_timer.h"

#include "levin/core/accelerator.h"
#include "levin/core/base/process.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin::cli {
namespace {

/// What the device still works on belongs to the part that gave it.
double now(const Trainer& trainer) {
  trainer.strategy().accelerator().synchronize(trainer.device());
  return steady_seconds();
}

}  // namespace

void StepTimer::on_train_batch_start(Trainer& trainer, Module&, const Batch&, std::int64_t) { batch_start_ = now(trainer); }
void StepTimer::on_before_backward(Trainer& trainer, Module&, const at::Tensor&) { backward_start_ = now(trainer); }
void StepTimer::on_after_backward(Trainer& trainer, Module&) { backward_end_ = optimizer_start_ = now(trainer); }
void StepTimer::on_before_optimizer_step(Trainer& trainer, Module&, torch::optim::Optimizer&) {
  optimizer_start_ = now(trainer);
}

void StepTimer::on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) {
  const double end = now(trainer);
  const double begin = last_end_ == 0 ? batch_start_ : last_end_;
  last_end_ = end;
  if (left_-- > 0) return;
  StepTimes times{.forward = backward_start_ - batch_start_,
                  .backward = backward_end_ - backward_start_,
                  .optimizer = end - optimizer_start_};
  times.rest = end - begin - times.step();
  steps_.push_back(times);
}

}  // namespace levin::cli
