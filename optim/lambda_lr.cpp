#include "levin/optim/lambda_lr.h"

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

// NOLINTNEXTLINE(performance-unnecessary-value-param): a function object is handed over by value, as the standard library does
LambdaLr::LambdaLr(torch::optim::Optimizer& optimizer, Factor lr_lambda) : SteppedLrScheduler(optimizer) {
  lr_lambdas_.assign(group_count(), lr_lambda);
  start();
}

LambdaLr::LambdaLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas)
    : SteppedLrScheduler(optimizer), lr_lambdas_(std::move(lr_lambdas)) {
  if (lr_lambdas_.size() != group_count()) {
    throw MisuseError(format(
        "LambdaLR has {} functions, but the optimizer has {} parameter groups: give one function, or one for each group.",
        lr_lambdas_.size(), group_count()));
  }
  start();
}

double LambdaLr::next_lr(std::size_t group, double) { return base_lr(group) * lr_lambdas_[group](last_epoch()); }

double LambdaLr::first_lr(std::size_t group) const { return base_lr(group) * lr_lambdas_[group](0); }

// As PyTorch does: functions are not saved.
void LambdaLr::save_state(Value& state) const { state["lr_lambdas"] = Value(Value::List(lr_lambdas_.size())); }

}  // namespace levin
