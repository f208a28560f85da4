#include "levin/optim/cyclic_lr_schedulers.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

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
  options.add(&Options::epochs, "Epochs of the cycle, instead of total_steps").min(1);
  options.add(&Options::steps_per_epoch, "Steps of an epoch, instead of total_steps").min(1);
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

void OneCycleLrOptions::check_groups(std::size_t groups) const {
  max_lr.expand(groups, "OneCycleLR: max_lr");
  base_momentum.expand(groups, "OneCycleLR: base_momentum");
  max_momentum.expand(groups, "OneCycleLR: max_momentum");
}

OneCycleLr::OneCycleLr(torch::optim::Optimizer& optimizer, const OneCycleLrOptions& options, const ScheduleLength& length)
    : SteppedLrSchedulerWith("OneCycleLR", optimizer, completed(options, length)) {
  if (options.cycle_momentum) check_can_cycle_momentum("OneCycleLR", optimizer);
  for (std::size_t group = 0; group < group_count(); ++group) set_initial_lr(group, target(group, 0).lr);
  start();
}

void OneCycleLr::before_step() {
  const std::int64_t length = options().length();
  if (last_epoch() > length) {
    throw MisuseError(
        format("OneCycleLR was stepped {} times, but its cycle has only {} steps: set total_steps to the steps of the whole "
               "run, and interval to 'step' when it counts batches.",
               last_epoch(), length));
  }
  if (!options().cycle_momentum || last_epoch() < 0) return;
  for (std::size_t group = 0; group < group_count(); ++group) {
    set_cycled_momentum(optimizer().param_groups()[group], target(group, last_epoch()).momentum);
  }
}

OneCycleLr::Target OneCycleLr::target(std::size_t group, std::int64_t step) const {
  const Options& cycle = options();
  const double initial_lr = cycle.max_lr.of(group) / cycle.div_factor;
  const Target low{initial_lr, cycle.max_momentum.of(group)};
  const Target high{cycle.max_lr.of(group), cycle.base_momentum.of(group)};
  const Target last{initial_lr / cycle.final_div_factor, low.momentum};
  const auto now = static_cast<double>(step);
  const auto between = [&](double begin, const Target& from, double end, const Target& to) -> Target {
    // A phase of no length is at its end at once.
    const double part = end == begin ? 1.0 : (now - begin) / (end - begin);
    const auto anneal = [&](double first, double second) {
      if (cycle.anneal_strategy == AnnealStrategy::kLinear) return (second - first) * part + first;
      return second + (first - second) / 2.0 * (std::cos(std::numbers::pi * part) + 1.0);
    };
    return {anneal(from.lr, to.lr), anneal(from.momentum, to.momentum)};
  };
  const double rise = cycle.pct_start * static_cast<double>(cycle.length());
  const auto end = static_cast<double>(cycle.length() - 1);
  if (now <= rise - 1) return between(0, low, rise - 1, high);
  if (!cycle.three_phase) return between(rise - 1, high, end, last);
  if (now <= 2 * rise - 2) return between(rise - 1, high, 2 * rise - 2, low);
  return between(2 * rise - 2, low, end, last);
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

void CyclicLrOptions::check_groups(std::size_t groups) const {
  base_lr.expand(groups, "CyclicLR: base_lr");
  max_lr.expand(groups, "CyclicLR: max_lr");
  base_momentum.expand(groups, "CyclicLR: base_momentum");
  max_momentum.expand(groups, "CyclicLR: max_momentum");
}

namespace {

/// The optimizer at the lowest rates, which are also the initial ones of schedulers made later.
torch::optim::Optimizer& at_base_lr(torch::optim::Optimizer& optimizer, const CyclicLrOptions& options) {
  auto& groups = optimizer.param_groups();
  options.check_groups(groups.size());
  if (options.cycle_momentum) check_can_cycle_momentum("CyclicLR", optimizer);
  for (std::size_t group = 0; group < groups.size(); ++group) set_lr(groups[group], options.base_lr.of(group));
  return optimizer;
}

}  // namespace

CyclicLr::CyclicLr(torch::optim::Optimizer& optimizer, const CyclicLrOptions& options)
    : SteppedLrSchedulerWith("CyclicLR", at_base_lr(optimizer, checked("CyclicLR", options)), options) {
  // PyTorch's first step, too, is relative to the initial rates, which differ from base_lr where another scheduler was first.
  start();
  for (std::size_t group = 0; group < group_count(); ++group) set_base_lr(group, options.base_lr.of(group));
}

double CyclicLr::height() const {
  const auto length = static_cast<double>(options().length());
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
    const double highest = options().max_momentum.of(group);
    const double range = highest - options().base_momentum.of(group);
    set_cycled_momentum(optimizer().param_groups()[group], highest - range * height());
  }
}

double CyclicLr::next_lr(std::size_t group, double) {
  return base_lr(group) + (options().max_lr.of(group) - base_lr(group)) * height();
}

// PyTorch's keys, from which it resumes.
void CyclicLr::save_state(Value& state) const {
  const Options& cycle = options();
  const auto of_all_groups = [&](const PerGroup<double>& given) {
    return OptionType<std::vector<double>>::write(given.expand(group_count(), "CyclicLR"));
  };
  state["max_lrs"] = of_all_groups(cycle.max_lr);
  state["total_size"] = static_cast<double>(cycle.length());
  state["step_ratio"] = static_cast<double>(cycle.step_size_up) / static_cast<double>(cycle.length());
  state["mode"] = std::string(choice_name(cycle.mode));
  state["gamma"] = cycle.gamma;
  state["scale_mode"] = cycle.mode == CycleMode::kExpRange ? "iterations" : "cycle";
  state["_scale_fn_custom"] = Value();
  state["cycle_momentum"] = cycle.cycle_momentum;
  if (!cycle.cycle_momentum) return;
  state["use_beta1"] = get_betas(optimizer().param_groups().front()).has_value();
  state["base_momentums"] = of_all_groups(cycle.base_momentum);
  state["max_momentums"] = of_all_groups(cycle.max_momentum);
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
}

}  // namespace levin
