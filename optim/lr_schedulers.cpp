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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<MultiStepLr>, "MultiStepLR", "Multiplies the rate at given steps");

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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ExponentialLr>, "ExponentialLR", "Multiplies the rate at every step");

void ExponentialLrOptions::declare(OptionList<ExponentialLrOptions>& options) {
  options.add("gamma", &ExponentialLrOptions::gamma, "Factor of every step").required();
}

ExponentialLr::ExponentialLr(torch::optim::Optimizer& optimizer, const ExponentialLrOptions& options)
    : SteppedLrSchedulerWith("ExponentialLR", optimizer, options) {
  start();
}

double ExponentialLr::next_lr(std::size_t, double lr) { return last_epoch() == 0 ? lr : lr * options().gamma; }

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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<CosineAnnealingWarmRestarts>, "CosineAnnealingWarmRestarts",
                "Falls along half a cosine, and restarts");

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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ConstantLr>, "ConstantLR", "A reduced rate for the first steps");

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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<LinearLr>, "LinearLR", "Goes linearly from one factor to another");

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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<PolynomialLr>, "PolynomialLR", "Falls to zero along a polynomial");

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

namespace {

void set_cycled_momentum(torch::optim::OptimizerParamGroup& group, double momentum) {
  if (const auto betas = get_betas(group)) {
    set_betas(group, {momentum, betas->second});
  } else {
    set_momentum(group, momentum);
  }
}

OneCycleLrOptions completed(OneCycleLrOptions options, const ScheduleLength& length) {
  if (!options.epochs && !options.steps_per_epoch)
    options.total_steps = length.unless(options.total_steps, "OneCycleLR", "total_steps");
  return options;
}

}  // namespace

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<OneCycleLr>, "OneCycleLR", "One rise and one fall over the whole run");

void OneCycleLrOptions::declare(OptionList<OneCycleLrOptions>& options) {
  using Options = OneCycleLrOptions;
  options.add("max_lr", &Options::max_lr, "Highest rate; a list gives one for each parameter group").required();
  options
      .add("total_steps", &Options::total_steps,
           "Steps of the cycle. Unset: epochs times steps_per_epoch, or else all of training")
      .min(1);
  options.add("epochs", &Options::epochs, "Epochs of the cycle, in place of total_steps").min(1);
  options.add("steps_per_epoch", &Options::steps_per_epoch, "Steps of an epoch, in place of total_steps").min(1);
  options.add("pct_start", &Options::pct_start, "Part of the cycle in which the rate rises").min(0.0).max(1.0);
  options.add("anneal_strategy", &Options::anneal_strategy, "Shape of rise and fall");
  options.add("cycle_momentum", &Options::cycle_momentum, "Move the momentum, or the first beta, against the rate");
  options.add("base_momentum", &Options::base_momentum, "Lowest momentum");
  options.add("max_momentum", &Options::max_momentum, "Highest momentum");
  options.add("div_factor", &Options::div_factor, "Highest rate over first rate").above(0.0);
  options.add("final_div_factor", &Options::final_div_factor, "First rate over last rate").above(0.0);
  options.add("three_phase", &Options::three_phase, "Fall to the first rate as fast as it rose, then to the last one");
  options.rule({"epochs", "steps_per_epoch"}, [](const Options& cycle) {
    return cycle.total_steps || cycle.epochs.has_value() == cycle.steps_per_epoch.has_value()
               ? ""
               : "the length of the cycle is not known: epochs and steps_per_epoch go together; or give total_steps";
  });
}

OneCycleLr::OneCycleLr(torch::optim::Optimizer& optimizer, const OneCycleLrOptions& options, const ScheduleLength& length)
    : SteppedLrSchedulerWith("OneCycleLR", optimizer, completed(options, length)) {
  lay_out();
  for (std::size_t group = 0; group < group_count(); ++group) set_initial_lr(group, ranges_[group].initial_lr);
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
    ranges_.push_back(
        {initial_lr, max_lrs[group], initial_lr / cycle.final_div_factor, base_momentums[group], max_momentums[group]});
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
    set_cycled_momentum(optimizer().param_groups()[group], target(ranges_[group], last_epoch()).momentum);
  }
}

double OneCycleLr::next_lr(std::size_t group, double) { return target(ranges_[group], last_epoch()).lr; }

double OneCycleLr::first_lr(std::size_t group) const { return target(ranges_[group], 0).lr; }

OneCycleLr::Target OneCycleLr::target(const Range& range, std::int64_t step) const {
  struct Phase {
    double end_step;
    Target from, to;
  };
  const Target low{range.initial_lr, range.max_momentum};
  const Target high{range.max_lr, range.base_momentum};
  const Target last{range.min_lr, range.max_momentum};
  const double rise = options().pct_start * static_cast<double>(total_steps_);
  const auto end = static_cast<double>(total_steps_ - 1);
  const std::vector<Phase> phases = options().three_phase
                                        ? std::vector<Phase>{{rise - 1, low, high}, {2 * rise - 2, high, low}, {end, low, last}}
                                        : std::vector<Phase>{{rise - 1, low, high}, {end, high, last}};
  const auto now = static_cast<double>(step);
  double start_step = 0.0;
  std::size_t index = 0;
  for (; index + 1 < phases.size() && now > phases[index].end_step; ++index) start_step = phases[index].end_step;
  const Phase& phase = phases[index];
  // A phase of no length is at its end at once.
  const double part = phase.end_step == start_step ? 1.0 : (now - start_step) / (phase.end_step - start_step);
  const auto anneal = [&](double from, double to) {
    if (options().anneal_strategy == AnnealStrategy::kLinear) return (to - from) * part + from;
    return to + (from - to) / 2.0 * (std::cos(std::numbers::pi * part) + 1.0);
  };
  return {anneal(phase.from.lr, phase.to.lr), anneal(phase.from.momentum, phase.to.momentum)};
}

void OneCycleLr::load_state(const Value& state) {
  SteppedLrSchedulerWith::load_state(state);
  lay_out();
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ReduceLrOnPlateau>, "ReduceLROnPlateau",
                "Multiplies the rate when a metric stops improving");

void ReduceLrOnPlateauOptions::declare(OptionList<ReduceLrOnPlateauOptions>& options) {
  using Options = ReduceLrOnPlateauOptions;
  options.add("mode", &Options::mode, "Whether a smaller or a larger metric is better");
  options.add("factor", &Options::factor, "Factor of each reduction").below(1.0);
  options.add("patience", &Options::patience, "Steps without improvement that are let pass").min(0);
  options.add("threshold", &Options::threshold, "Smallest change that counts as an improvement");
  options.add("threshold_mode", &Options::threshold_mode, "Threshold relative to the best metric, or absolute");
  options.add("cooldown", &Options::cooldown, "Steps after a reduction in which nothing is counted").min(0);
  options.add("min_lr", &Options::min_lr, "Lowest rate; a list gives one for each parameter group");
  options.add("eps", &Options::eps, "A reduction smaller than this is not made");
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
