#include "levin/optim/lr_schedulers.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<StepLr>, "StepLR", "Multiplies the rate every so many steps");

void StepLrOptions::declare(OptionList<StepLrOptions>& options) {
  options.add(&StepLrOptions::step_size, "Steps between two changes of the rate").required().min(1);
  options.add(&StepLrOptions::gamma, "Factor of each change");
}

double StepLrOptions::next_lr(std::int64_t step, double lr, double) const {
  return step != 0 && step % step_size == 0 ? lr * gamma : lr;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<MultiStepLr>, "MultiStepLR", "Multiplies the rate at given steps");

void MultiStepLrOptions::declare(OptionList<MultiStepLrOptions>& options) {
  options.add(&MultiStepLrOptions::milestones, "Steps at which the rate changes").required();
  options.add(&MultiStepLrOptions::gamma, "Factor of each change");
}

double MultiStepLrOptions::next_lr(std::int64_t step, double lr, double) const {
  const auto due = std::count(milestones.begin(), milestones.end(), step);
  return due == 0 ? lr : lr * std::pow(gamma, static_cast<double>(due));
}

double MultiStepLrOptions::first_lr(double base_lr) const {
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [](std::int64_t step) { return step <= 0; });
  return base_lr * std::pow(gamma, static_cast<double>(passed));
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ExponentialLr>, "ExponentialLR", "Multiplies the rate at every step");

void ExponentialLrOptions::declare(OptionList<ExponentialLrOptions>& options) {
  options.add(&ExponentialLrOptions::gamma, "Factor of every step").required();
}

double ExponentialLrOptions::next_lr(std::int64_t step, double lr, double) const { return step == 0 ? lr : lr * gamma; }

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

namespace {

// 1 + cos(pi * step / half_period)
double one_plus_cos(std::int64_t step, std::int64_t half_period) {
  return 1.0 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(half_period));
}

}  // namespace

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<CosineAnnealingLr>, "CosineAnnealingLR",
                "Falls along half a cosine, and rises again");

void CosineAnnealingLrOptions::declare(OptionList<CosineAnnealingLrOptions>& options) {
  options.add(&CosineAnnealingLrOptions::T_max, "Steps from the highest to the lowest rate. Unset: all of training").min(1);
  options.add(&CosineAnnealingLrOptions::eta_min, "Lowest rate");
}

CosineAnnealingLrOptions CosineAnnealingLrOptions::completed(const ScheduleLength& length) const {
  return {.T_max = length.unless(T_max, kName, "T_max"), .eta_min = eta_min};
}

double CosineAnnealingLrOptions::next_lr(std::int64_t step, double lr, double base_lr) const {
  if (step == 0) return lr;
  // The step before was at the lowest rate, from which the recursion below cannot rise.
  if ((step - 1 - *T_max) % (2 * *T_max) == 0) {
    return lr + (base_lr - eta_min) * (1.0 - std::cos(std::numbers::pi / static_cast<double>(*T_max))) / 2.0;
  }
  return one_plus_cos(step, *T_max) / one_plus_cos(step - 1, *T_max) * (lr - eta_min) + eta_min;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<CosineAnnealingWarmRestarts>, "CosineAnnealingWarmRestarts",
                "Falls along half a cosine, and restarts");

void CosineAnnealingWarmRestartsOptions::declare(OptionList<CosineAnnealingWarmRestartsOptions>& options) {
  options.add(&CosineAnnealingWarmRestartsOptions::T_0, "Steps of the first cycle").required().min(1);
  options.add(&CosineAnnealingWarmRestartsOptions::T_mult, "Factor from one cycle's length to the next").min(1);
  options.add(&CosineAnnealingWarmRestartsOptions::eta_min, "Lowest rate");
}

std::pair<std::int64_t, std::int64_t> CosineAnnealingWarmRestartsOptions::cycle_at(std::int64_t step) const {
  if (T_mult == 1) return {step % T_0, T_0};
  std::int64_t length = T_0;
  for (; step >= length; length *= T_mult) step -= length;
  return {step, length};
}

double CosineAnnealingWarmRestartsOptions::next_lr(std::int64_t step, double, double base_lr) const {
  const auto [step_in_cycle, length] = cycle_at(step);
  return eta_min + (base_lr - eta_min) * one_plus_cos(step_in_cycle, length) / 2.0;
}

// PyTorch's scheduler needs both to go on.
void CosineAnnealingWarmRestarts::save_state(Value& state) const {
  FormulaLr::save_state(state);
  const auto [step_in_cycle, length] = options().cycle_at(std::max<std::int64_t>(last_epoch(), 0));
  state["T_cur"] = step_in_cycle;
  state["T_i"] = length;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ConstantLr>, "ConstantLR", "A reduced rate for the first steps");

void ConstantLrOptions::declare(OptionList<ConstantLrOptions>& options) {
  options.add(&ConstantLrOptions::factor, "Factor of the first steps").min(0.0).max(1.0);
  options.add(&ConstantLrOptions::total_iters, "Steps with the factor").min(0);
}

double ConstantLrOptions::next_lr(std::int64_t step, double lr, double base_lr) const {
  if (step == 0) return lr * factor;
  if (step != total_iters) return lr;
  // PyTorch divides by the factor, and so cannot come back from a factor of zero.
  return factor == 0.0 ? base_lr : lr * (1.0 / factor);
}

double ConstantLrOptions::first_lr(double base_lr) const { return total_iters <= 0 ? base_lr : base_lr * factor; }

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<LinearLr>, "LinearLR", "Goes linearly from one factor to another");

void LinearLrOptions::declare(OptionList<LinearLrOptions>& options) {
  options.add(&LinearLrOptions::start_factor, "Factor of the first step").above(0.0).max(1.0);
  options.add(&LinearLrOptions::end_factor, "Factor after the last step").min(0.0).max(1.0);
  options.add(&LinearLrOptions::total_iters, "Steps from the one to the other").min(0);
}

double LinearLrOptions::next_lr(std::int64_t step, double lr, double) const {
  if (step == 0) return lr * start_factor;
  if (step > total_iters) return lr;
  const double growth = end_factor - start_factor;
  const double past = static_cast<double>(total_iters) * start_factor + static_cast<double>(step - 1) * growth;
  return lr * (1.0 + growth / past);
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<PolynomialLr>, "PolynomialLR", "Falls to zero along a polynomial");

void PolynomialLrOptions::declare(OptionList<PolynomialLrOptions>& options) {
  options.add(&PolynomialLrOptions::total_iters, "Steps until the rate is zero. Unset: all of training").min(0);
  options.add(&PolynomialLrOptions::power, "Power of the polynomial");
}

PolynomialLrOptions PolynomialLrOptions::completed(const ScheduleLength& length) const {
  return {.total_iters = length.unless(total_iters, kName, "total_iters"), .power = power};
}

double PolynomialLrOptions::next_lr(std::int64_t step, double lr, double) const {
  if (step == 0 || step > *total_iters) return lr;
  const auto total = static_cast<double>(*total_iters);
  const auto now = static_cast<double>(step);
  return lr * std::pow((1.0 - now / total) / (1.0 - (now - 1.0) / total), power);
}

namespace {

OneCycleLrOptions completed(OneCycleLrOptions options, const ScheduleLength& length) {
  if (!options.epochs && !options.steps_per_epoch)
    options.total_steps = length.unless(options.total_steps, "OneCycleLR", "total_steps");
  return options;
}

}  // namespace

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<OneCycleLr>, "OneCycleLR", "One rise and one fall over the whole run");

void OneCycleLrOptions::declare(OptionList<OneCycleLrOptions>& options) {
  using Options = OneCycleLrOptions;
  options.add(&Options::max_lr, "Highest rate; a list gives one for each parameter group").required();
  options.add(&Options::total_steps, "Steps of the cycle. Unset: epochs times steps_per_epoch, or else all of training").min(1);
  options.add(&Options::epochs, "Epochs of the cycle, in place of total_steps").min(1);
  options.add(&Options::steps_per_epoch, "Steps of an epoch, in place of total_steps").min(1);
  options.add(&Options::pct_start, "Part of the cycle in which the rate rises").min(0.0).max(1.0);
  options.add(&Options::anneal_strategy, "Shape of rise and fall");
  options.add(&Options::cycle_momentum, "Move the momentum, or the first beta, against the rate");
  options.add(&Options::base_momentum, "Lowest momentum");
  options.add(&Options::max_momentum, "Highest momentum");
  options.add(&Options::div_factor, "Highest rate over first rate").above(0.0);
  options.add(&Options::final_div_factor, "First rate over last rate").above(0.0);
  options.add(&Options::three_phase, "Fall to the first rate as fast as it rose, then to the last one");
  options.rule({"epochs", "steps_per_epoch"}, [](const Options& cycle) {
    return cycle.total_steps || cycle.epochs.has_value() == cycle.steps_per_epoch.has_value()
               ? ""
               : "the length of the cycle is not known: epochs and steps_per_epoch go together; or give total_steps";
  });
}

OneCycleLr::OneCycleLr(torch::optim::Optimizer& optimizer, const OneCycleLrOptions& options, const ScheduleLength& length)
    : SteppedLrSchedulerWith("OneCycleLR", optimizer, completed(options, length)) {
  lay_out();
  for (std::size_t group = 0; group < group_count(); ++group) set_initial_lr(group, ranges_[group].low.lr);
  start();
}

void OneCycleLr::lay_out() {
  const Options& cycle = options();
  total_steps_ = cycle.total_steps ? *cycle.total_steps : *cycle.epochs * *cycle.steps_per_epoch;
  const std::vector<double> max_lrs = cycle.max_lr.expand(group_count(), "OneCycleLR: max_lr");
  const std::vector<double> base_momentums = cycle.base_momentum.expand(group_count(), "OneCycleLR: base_momentum");
  const std::vector<double> max_momentums = cycle.max_momentum.expand(group_count(), "OneCycleLR: max_momentum");
  ranges_.clear();
  for (std::size_t group = 0; group < group_count(); ++group) {
    const auto& param_group = optimizer().param_groups()[group];
    if (cycle.cycle_momentum && !get_momentum(param_group) && !get_betas(param_group)) {
      throw ConfigError(format("OneCycleLR: {} has neither momentum nor betas: set cycle_momentum to false.",
                               optimizer_class_name(optimizer())));
    }
    const double initial_lr = max_lrs[group] / cycle.div_factor;
    ranges_.push_back({.low = {initial_lr, max_momentums[group]},
                       .high = {max_lrs[group], base_momentums[group]},
                       .last = {initial_lr / cycle.final_div_factor, max_momentums[group]}});
  }
}

void OneCycleLr::before_step() {
  if (last_epoch() > total_steps_) {
    throw MisuseError(
        format("OneCycleLR was stepped {} times, but its cycle has only {} steps: set total_steps to the steps of the whole "
               "run, and interval to 'step' when it counts batches.",
               last_epoch(), total_steps_));
  }
  if (!options().cycle_momentum || last_epoch() < 0) return;
  for (std::size_t group = 0; group < group_count(); ++group) {
    auto& param_group = optimizer().param_groups()[group];
    const double momentum = target(ranges_[group], last_epoch()).momentum;
    if (const auto betas = get_betas(param_group)) {
      set_betas(param_group, {momentum, betas->second});
    } else {
      set_momentum(param_group, momentum);
    }
  }
}

double OneCycleLr::next_lr(std::size_t group, double) { return target(ranges_[group], last_epoch()).lr; }

double OneCycleLr::first_lr(std::size_t group) const { return target(ranges_[group], 0).lr; }

OneCycleLr::Target OneCycleLr::target(const Range& range, std::int64_t step) const {
  const auto now = static_cast<double>(step);
  const auto between = [&](double begin, const Target& from, double end, const Target& to) -> Target {
    // A phase of no length is at its end at once.
    const double part = end == begin ? 1.0 : (now - begin) / (end - begin);
    const auto anneal = [&](double first, double second) {
      if (options().anneal_strategy == AnnealStrategy::kLinear) return (second - first) * part + first;
      return second + (first - second) / 2.0 * (std::cos(std::numbers::pi * part) + 1.0);
    };
    return {anneal(from.lr, to.lr), anneal(from.momentum, to.momentum)};
  };
  const double rise = options().pct_start * static_cast<double>(total_steps_);
  const auto end = static_cast<double>(total_steps_ - 1);
  if (now <= rise - 1) return between(0, range.low, rise - 1, range.high);
  if (!options().three_phase) return between(rise - 1, range.high, end, range.last);
  if (now <= 2 * rise - 2) return between(rise - 1, range.high, 2 * rise - 2, range.low);
  return between(2 * rise - 2, range.low, end, range.last);
}

void OneCycleLr::load_state(const Value& state) {
  SteppedLrSchedulerWith::load_state(state);
  lay_out();
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ReduceLrOnPlateau>, "ReduceLROnPlateau",
                "Multiplies the rate when a metric stops improving");

void ReduceLrOnPlateauOptions::declare(OptionList<ReduceLrOnPlateauOptions>& options) {
  using Options = ReduceLrOnPlateauOptions;
  options.add(&Options::mode, "Whether a smaller or a larger metric is better");
  options.add(&Options::factor, "Factor of each reduction").below(1.0);
  options.add(&Options::patience, "Steps without improvement that are let pass").min(0);
  options.add(&Options::threshold, "Smallest change that counts as an improvement");
  options.add(&Options::threshold_mode, "Threshold relative to the best metric, or absolute");
  options.add(&Options::cooldown, "Steps after a reduction in which nothing is counted").min(0);
  options.add(&Options::min_lr, "Lowest rate; a list gives one for each parameter group");
  options.add(&Options::eps, "A reduction smaller than this is not made");
}

ReduceLrOnPlateau::ReduceLrOnPlateau(torch::optim::Optimizer& optimizer, const ReduceLrOnPlateauOptions& options)
    : optimizer_(optimizer), options_(checked("ReduceLROnPlateau", options)), last_lr_(get_lrs(optimizer)) {
  options_.min_lr.expand(last_lr_.size(), "ReduceLROnPlateau: min_lr");
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.mode == MonitorMode::kMin ? infinity : -infinity;
}

void ReduceLrOnPlateau::step(std::optional<double> metric) {
  if (!metric) {
    throw MisuseError("ReduceLROnPlateau needs a metric at each step: set `monitor` to the key of a logged value.");
  }
  ++last_epoch_;
  if (is_better(*metric)) {
    best_ = *metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > options_.patience) {
    reduce();
    cooldown_left_ = options_.cooldown;
    bad_epochs_ = 0;
  }
  last_lr_ = get_lrs(optimizer_);
}

bool ReduceLrOnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == ThresholdMode::kRelative;
  if (options_.mode == MonitorMode::kMin) {
    return metric < (relative ? best_ * (1.0 - options_.threshold) : best_ - options_.threshold);
  }
  return metric > (relative ? best_ * (options_.threshold + 1.0) : best_ + options_.threshold);
}

void ReduceLrOnPlateau::reduce() {
  auto& groups = optimizer_.param_groups();
  const std::vector<double> min_lrs = options_.min_lr.expand(groups.size(), "ReduceLROnPlateau: min_lr");
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const double lr = get_lr(groups[group]);
    const double reduced = std::max(lr * options_.factor, min_lrs[group]);
    if (lr - reduced > options_.eps) set_lr(groups[group], reduced);
  }
}

Value ReduceLrOnPlateau::state_dict() const {
  Value state = write_options(options_);
  state["best"] = best_;
  state["num_bad_epochs"] = bad_epochs_;
  state["cooldown_counter"] = cooldown_left_;
  state["last_epoch"] = last_epoch_;
  state["_last_lr"] = OptionType<std::vector<double>>::write(last_lr_);
  return state;
}

void ReduceLrOnPlateau::load_state_dict(const Value& state) {
  auto options = detail::options_in_state<Options>(state);
  auto last_lr = OptionType<std::vector<double>>::read(state.at("_last_lr"));
  const double best = state.at("best").as_double();
  const std::int64_t bad_epochs = state.at("num_bad_epochs").as_int();
  const std::int64_t cooldown_left = state.at("cooldown_counter").as_int();
  last_epoch_ = state.at("last_epoch").as_int();
  options_ = std::move(options);
  last_lr_ = std::move(last_lr);
  best_ = best;
  bad_epochs_ = bad_epochs;
  cooldown_left_ = cooldown_left;
}

}  // namespace levin
