#include "levin/optim/one_cycle_lr.h"

#include <torch/optim/optimizer.h>

#include <cmath>
#include <numbers>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {
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

}  // namespace levin
