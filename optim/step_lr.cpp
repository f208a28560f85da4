#include "levin/optim/step_lr.h"

#include <algorithm>
#include <cmath>

namespace levin {

void StepLrOptions::declare(OptionList<StepLrOptions>& options) {
  options.add("step_size", &StepLrOptions::step_size, "Steps between two changes of the rate").required().min(1);
  options.add("gamma", &StepLrOptions::gamma, "Factor of each change");
}

StepLr::StepLr(torch::optim::Optimizer& optimizer, const StepLrOptions& options)
    : SteppedLrSchedulerWith("StepLR", optimizer, options) {
  start();
}

double StepLr::next_lr(std::size_t, double lr) {
  const bool due = last_epoch() != 0 && last_epoch() % options().step_size == 0;
  return due ? lr * options().gamma : lr;
}

void MultiStepLrOptions::declare(OptionList<MultiStepLrOptions>& options) {
  options.add("milestones", &MultiStepLrOptions::milestones, "Steps at which the rate changes").required();
  options.add("gamma", &MultiStepLrOptions::gamma, "Factor of each change");
}

MultiStepLr::MultiStepLr(torch::optim::Optimizer& optimizer, const MultiStepLrOptions& options)
    : SteppedLrSchedulerWith("MultiStepLR", optimizer, options) {
  start();
}

double MultiStepLr::next_lr(std::size_t, double lr) {
  const auto& milestones = options().milestones;
  const auto due = std::count(milestones.begin(), milestones.end(), last_epoch());
  return due == 0 ? lr : lr * std::pow(options().gamma, static_cast<double>(due));
}

double MultiStepLr::first_lr(std::size_t group) const {
  const auto& milestones = options().milestones;
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [](std::int64_t step) { return step <= 0; });
  return base_lr(group) * std::pow(options().gamma, static_cast<double>(passed));
}

void ExponentialLrOptions::declare(OptionList<ExponentialLrOptions>& options) {
  options.add("gamma", &ExponentialLrOptions::gamma, "Factor of every step").required();
}

ExponentialLr::ExponentialLr(torch::optim::Optimizer& optimizer, const ExponentialLrOptions& options)
    : SteppedLrSchedulerWith("ExponentialLR", optimizer, options) {
  start();
}

double ExponentialLr::next_lr(std::size_t, double lr) { return last_epoch() == 0 ? lr : lr * options().gamma; }

}  // namespace levin
