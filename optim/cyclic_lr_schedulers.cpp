#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/lr_schedulers.h"

// Schedules that rise and fall, with a momentum that goes the other way.
namespace levin {

namespace {

/// Throws ConfigError where there is nothing to move against the rate.
void check_can_cycle_momentum(const char* class_name, const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    if (get_momentum(group) || get_betas(group)) continue;
    throw ConfigError(format("{}: {} has neither momentum nor betas: set cycle_momentum to false.", class_name,
                             optimizer_class_name(optimizer)));
  }
}

/// The momentum of a group, or else its first beta.
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
  if (cycle.cycle_momentum) check_can_cycle_momentum("OneCycleLR", optimizer());
  ranges_.clear();
  for (std::size_t group = 0; group < group_count(); ++group) {
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
    set_cycled_momentum(optimizer().param_groups()[group], target(ranges_[group], last_epoch()).momentum);
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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<CyclicLr>, "CyclicLR", "Rises and falls linearly, again and again");

void CyclicLrOptions::declare(OptionList<CyclicLrOptions>& options) {
  using Options = CyclicLrOptions;
  options.add(&Options::base_lr, "Lowest rate; a list gives one for each parameter group").required();
  options.add(&Options::max_lr, "Highest rate; a list gives one for each parameter group").required();
  options.add(&Options::step_size_up, "Steps in which the rate rises").min(1);
  options.add(&Options::step_size_down, "Steps in which the rate falls. Unset: step_size_up").min(1);
  options.add(&Options::mode, "Height of the cycles: all alike, halved after each, or times gamma at each step");
  options.add(&Options::gamma, "Factor of the height at each step, of mode exp_range");
  options.add(&Options::cycle_momentum, "Move the momentum, or the first beta, against the rate");
  options.add(&Options::base_momentum, "Lowest momentum");
  options.add(&Options::max_momentum, "Highest momentum");
}

namespace {

/// The optimizer at the lowest rates, which are also the initial ones of schedulers made later.
torch::optim::Optimizer& at_base_lr(torch::optim::Optimizer& optimizer, const CyclicLrOptions& options) {
  const std::vector<double> lrs = options.base_lr.expand(optimizer.param_groups().size(), "CyclicLR: base_lr");
  if (options.cycle_momentum) check_can_cycle_momentum("CyclicLR", optimizer);
  for (std::size_t group = 0; group < lrs.size(); ++group) set_lr(optimizer.param_groups()[group], lrs[group]);
  return optimizer;
}

}  // namespace

CyclicLr::CyclicLr(torch::optim::Optimizer& optimizer, const CyclicLrOptions& options)
    : SteppedLrSchedulerWith("CyclicLR", at_base_lr(optimizer, checked("CyclicLR", options)), options) {
  lay_out();
  // PyTorch's first step, too, is relative to the initial rates, which differ from base_lr where another scheduler was first.
  start();
  const std::vector<double> base_lrs = options.base_lr.expand(group_count(), "CyclicLR: base_lr");
  for (std::size_t group = 0; group < group_count(); ++group) set_base_lr(group, base_lrs[group]);
}

void CyclicLr::lay_out() {
  const std::vector<double> max_lrs = options().max_lr.expand(group_count(), "CyclicLR: max_lr");
  const std::vector<double> base_momentums = options().base_momentum.expand(group_count(), "CyclicLR: base_momentum");
  const std::vector<double> max_momentums = options().max_momentum.expand(group_count(), "CyclicLR: max_momentum");
  ranges_.clear();
  for (std::size_t group = 0; group < group_count(); ++group) {
    ranges_.push_back({max_lrs[group], base_momentums[group], max_momentums[group]});
  }
}

std::int64_t CyclicLr::cycle_length() const {
  return options().step_size_up + options().step_size_down.value_or(options().step_size_up);
}

double CyclicLr::height() const {
  const auto length = static_cast<double>(cycle_length());
  const double top = static_cast<double>(options().step_size_up) / length;
  const auto step = static_cast<double>(last_epoch());
  const double cycle = std::floor(1.0 + step / length);
  const double part = 1.0 + step / length - cycle;
  const double height = part <= top ? part / top : (part - 1.0) / (top - 1.0);
  if (options().mode == CycleMode::kTriangular2) return height / std::pow(2.0, cycle - 1.0);
  return options().mode == CycleMode::kExpRange ? height * std::pow(options().gamma, step) : height;
}

void CyclicLr::before_step() {
  if (!options().cycle_momentum || last_epoch() < 0) return;
  for (std::size_t group = 0; group < group_count(); ++group) {
    const Range& range = ranges_[group];
    set_cycled_momentum(optimizer().param_groups()[group],
                        range.max_momentum - (range.max_momentum - range.base_momentum) * height());
  }
}

double CyclicLr::next_lr(std::size_t group, double) {
  return base_lr(group) + (ranges_[group].max_lr - base_lr(group)) * height();
}

// PyTorch's keys, from which it goes on.
void CyclicLr::save_state(Value& state) const {
  Value::List max_lrs;
  Value::List base_momentums;
  Value::List max_momentums;
  for (const Range& range : ranges_) {
    max_lrs.emplace_back(range.max_lr);
    base_momentums.emplace_back(range.base_momentum);
    max_momentums.emplace_back(range.max_momentum);
  }
  const bool is_by_step = options().mode == CycleMode::kExpRange;
  state["max_lrs"] = Value(std::move(max_lrs));
  state["total_size"] = static_cast<double>(cycle_length());
  state["step_ratio"] = static_cast<double>(options().step_size_up) / static_cast<double>(cycle_length());
  state["mode"] = std::string(choice_name(options().mode));
  state["gamma"] = options().gamma;
  state["scale_mode"] = is_by_step ? "iterations" : "cycle";
  state["_scale_fn_custom"] = Value();
  state["cycle_momentum"] = options().cycle_momentum;
  if (!options().cycle_momentum) return;
  state["use_beta1"] = get_betas(optimizer().param_groups().front()).has_value();
  state["base_momentums"] = Value(std::move(base_momentums));
  state["max_momentums"] = Value(std::move(max_momentums));
}

void CyclicLr::load_state(const Value& state) {
  const double total = state.at("total_size").as_double();
  const auto length = static_cast<std::int64_t>(std::round(total));
  const auto up = static_cast<std::int64_t>(std::round(total * state.at("step_ratio").as_double()));
  Value saved = write_options(options());
  saved["base_lr"] = state.at("base_lrs");
  saved["max_lr"] = state.at("max_lrs");
  saved["step_size_up"] = up;
  saved["step_size_down"] = length - up;
  saved["mode"] = state.at("mode");
  saved["gamma"] = state.at("gamma");
  saved["cycle_momentum"] = state.at("cycle_momentum");
  if (state.at("cycle_momentum").as_bool()) {
    saved["base_momentum"] = state.at("base_momentums");
    saved["max_momentum"] = state.at("max_momentums");
  }
  SteppedLrSchedulerWith::load_state(saved);
  lay_out();
}

}  // namespace levin
