#include "levin/optim/cosine_annealing_lr.h"

#include <cmath>
#include <numbers>

namespace levin {
namespace {

// 1 + cos(pi * step / half_period)
double one_plus_cos(std::int64_t step, std::int64_t half_period) {
  return 1.0 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(half_period));
}

}  // namespace

void CosineAnnealingLrOptions::declare(OptionList<CosineAnnealingLrOptions>& options) {
  options.add("T_max", &CosineAnnealingLrOptions::T_max, "Steps from the highest to the lowest rate. Unset: all of training")
      .min(1);
  options.add("eta_min", &CosineAnnealingLrOptions::eta_min, "Lowest rate");
}

CosineAnnealingLr::CosineAnnealingLr(torch::optim::Optimizer& optimizer, const CosineAnnealingLrOptions& options,
                                     const ScheduleLength& length)
    : SteppedLrSchedulerWith(
          "CosineAnnealingLR", optimizer,
          {.T_max = length.unless(options.T_max, "CosineAnnealingLR", "T_max"), .eta_min = options.eta_min}) {
  start();
}

double CosineAnnealingLr::next_lr(std::size_t group, double lr) {
  const std::int64_t T_max = *options().T_max;
  const double eta_min = options().eta_min;
  if (last_epoch() == 0) return lr;
  // The step before was at the lowest rate, from which the recursion below cannot rise.
  if ((last_epoch() - 1 - T_max) % (2 * T_max) == 0) {
    return lr + (base_lr(group) - eta_min) * (1.0 - std::cos(std::numbers::pi / static_cast<double>(T_max))) / 2.0;
  }
  return one_plus_cos(last_epoch(), T_max) / one_plus_cos(last_epoch() - 1, T_max) * (lr - eta_min) + eta_min;
}

void CosineAnnealingWarmRestartsOptions::declare(OptionList<CosineAnnealingWarmRestartsOptions>& options) {
  options.add("T_0", &CosineAnnealingWarmRestartsOptions::T_0, "Steps of the first cycle").required().min(1);
  options.add("T_mult", &CosineAnnealingWarmRestartsOptions::T_mult, "Factor from one cycle's length to the next").min(1);
  options.add("eta_min", &CosineAnnealingWarmRestartsOptions::eta_min, "Lowest rate");
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(torch::optim::Optimizer& optimizer,
                                                         const CosineAnnealingWarmRestartsOptions& options)
    : SteppedLrSchedulerWith("CosineAnnealingWarmRestarts", optimizer, options), cycle_length_(options.T_0) {
  start();
}

void CosineAnnealingWarmRestarts::before_step() {
  if (last_epoch() <= 0) {
    step_in_cycle_ = 0;
    cycle_length_ = options().T_0;
  } else if (++step_in_cycle_ >= cycle_length_) {
    step_in_cycle_ -= cycle_length_;
    cycle_length_ *= options().T_mult;
  }
}

double CosineAnnealingWarmRestarts::next_lr(std::size_t group, double) {
  const double eta_min = options().eta_min;
  return eta_min + (base_lr(group) - eta_min) * one_plus_cos(step_in_cycle_, cycle_length_) / 2.0;
}

void CosineAnnealingWarmRestarts::save_state(Value& state) const {
  SteppedLrSchedulerWith::save_state(state);
  state["T_cur"] = step_in_cycle_;
  state["T_i"] = cycle_length_;
}

void CosineAnnealingWarmRestarts::load_state(const Value& state) {
  const std::int64_t step_in_cycle = state.at("T_cur").as_int();
  const std::int64_t cycle_length = state.at("T_i").as_int();
  SteppedLrSchedulerWith::load_state(state);
  step_in_cycle_ = step_in_cycle;
  cycle_length_ = cycle_length;
}

}  // namespace levin
