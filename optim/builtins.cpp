#include "levin/optim/builtins.h"

#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/optim/lr_schedulers.h"
#include "levin/optim/optimizer_factories.h"
#include "levin/optim/sequential_lr.h"

namespace levin {
namespace {

template <class Scheduler>
void add_scheduler(const char* name, const char* help) {
  Registry<LrSchedulerFactory>::instance().add<LrSchedulerFactoryOf<Scheduler>>(name, help);
}

}  // namespace

void register_builtin_optimizers() {
  add_optimizer_factories(Registry<OptimizerFactory>::instance());
  add_scheduler<ConstantLr>("ConstantLR", "A reduced rate for the first steps");
  add_scheduler<CosineAnnealingLr>("CosineAnnealingLR", "Falls along half a cosine, and rises again");
  add_scheduler<CosineAnnealingWarmRestarts>("CosineAnnealingWarmRestarts", "Falls along half a cosine, and restarts");
  add_scheduler<ExponentialLr>("ExponentialLR", "Multiplies the rate at every step");
  add_scheduler<LinearLr>("LinearLR", "Goes linearly from one factor to another");
  add_scheduler<MultiStepLr>("MultiStepLR", "Multiplies the rate at given steps");
  add_scheduler<OneCycleLr>("OneCycleLR", "One rise and one fall over the whole run");
  add_scheduler<PolynomialLr>("PolynomialLR", "Falls to zero along a polynomial");
  add_scheduler<ReduceLrOnPlateau>("ReduceLROnPlateau", "Multiplies the rate when a metric stops improving");
  add_scheduler<SequentialLr>("SequentialLR", "Several schedules, one after the other");
  add_scheduler<StepLr>("StepLR", "Multiplies the rate every so many steps");
}

}  // namespace levin
