#include "levin/optim/warmup_lr.h"

#include <cmath>

namespace levin {

void ConstantLrOptions::declare(OptionList<ConstantLrOptions>& options) {
  options.add("factor", &ConstantLrOptions::factor, "Factor of the first steps").min(0.0).max(1.0);
  options.add("total_iters", &ConstantLrOptions::total_iters, "Steps with the factor").min(0);
}

ConstantLr::ConstantLr(torch::optim::Optimizer& optimizer, const ConstantLrOptions& options)
    : SteppedLrSchedulerWith("ConstantLR", optimizer, options) {
  start();
}

double ConstantLr::next_lr(std::size_t group, double lr) {
  if (last_epoch() == 0) return lr * options().factor;
  if (last_epoch() != options().total_iters) return lr;
  // PyTorch divides by the factor, and so cannot come back from a factor of zero.
  return options().factor == 0.0 ? base_lr(group) : lr * (1.0 / options().factor);
}

double ConstantLr::first_lr(std::size_t group) const {
  return options().total_iters <= 0 ? base_lr(group) : base_lr(group) * options().factor;
}

void LinearLrOptions::declare(OptionList<LinearLrOptions>& options) {
  options.add("start_factor", &LinearLrOptions::start_factor, "Factor of the first step").above(0.0).max(1.0);
  options.add("end_factor", &LinearLrOptions::end_factor, "Factor after the last step").min(0.0).max(1.0);
  options.add("total_iters", &LinearLrOptions::total_iters, "Steps from the one to the other").min(0);
}

LinearLr::LinearLr(torch::optim::Optimizer& optimizer, const LinearLrOptions& options)
    : SteppedLrSchedulerWith("LinearLR", optimizer, options) {
  start();
}

double LinearLr::next_lr(std::size_t, double lr) {
  const auto& [start_factor, end_factor, total_iters] = options();
  if (last_epoch() == 0) return lr * start_factor;
  if (last_epoch() > total_iters) return lr;
  const double growth = end_factor - start_factor;
  const double past = static_cast<double>(total_iters) * start_factor + static_cast<double>(last_epoch() - 1) * growth;
  return lr * (1.0 + growth / past);
}

double LinearLr::first_lr(std::size_t group) const { return base_lr(group) * options().start_factor; }

void PolynomialLrOptions::declare(OptionList<PolynomialLrOptions>& options) {
  options.add("total_iters", &PolynomialLrOptions::total_iters, "Steps until the rate is zero. Unset: all of training").min(0);
  options.add("power", &PolynomialLrOptions::power, "Power of the polynomial");
}

PolynomialLr::PolynomialLr(torch::optim::Optimizer& optimizer, const PolynomialLrOptions& options, const ScheduleLength& length)
    : SteppedLrSchedulerWith(
          "PolynomialLR", optimizer,
          {.total_iters = length.unless(options.total_iters, "PolynomialLR", "total_iters"), .power = options.power}) {
  start();
}

double PolynomialLr::next_lr(std::size_t, double lr) {
  const std::int64_t total_iters = *options().total_iters;
  if (last_epoch() == 0 || last_epoch() > total_iters) return lr;
  const auto total = static_cast<double>(total_iters);
  const auto step = static_cast<double>(last_epoch());
  return lr * std::pow((1.0 - step / total) / (1.0 - (step - 1.0) / total), options().power);
}

}  // namespace levin
