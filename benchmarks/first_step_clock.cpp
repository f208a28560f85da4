// A plug-in whose callback reports when the first training step of a process has ended.
#include <levin/levin.h>

#include "sample.h"

namespace {

class FirstStepClock : public levin::Callback {
 public:
  void on_train_batch_end(levin::Trainer& trainer, levin::Module&, const levin::StepOutput&, const levin::Batch&,
                          std::int64_t) override {
    if (trainer.global_step() == 1) levin::benchmarks::print_first_step();
  }
};

LEVIN_REGISTER_CALLBACK(FirstStepClock, "Reports when the first step has ended");

}  // namespace
