#include "levin/optim/reduce_lr_on_plateau.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <limits>

#include "levin/core/error.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

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
