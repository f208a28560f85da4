#include "levin/optim/stepped_lr_scheduler.h"

#include <torch/optim/optimizer.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/initial_lr.h"

namespace levin {

SteppedLrScheduler::SteppedLrScheduler(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer), initial_lrs_(detail::initial_lrs(optimizer)), base_lrs_(*initial_lrs_) {}

SteppedLrScheduler::~SteppedLrScheduler() = default;

void SteppedLrScheduler::start() { step(); }

void SteppedLrScheduler::step(std::optional<double>) {
  ++last_epoch_;
  before_step();
  std::vector<double> lrs = get_lrs(optimizer_);
  take_new_groups();
  if (lrs.size() != group_count()) {
    throw MisuseError(
        format("The optimizer has {} parameter groups, but had {} when its scheduler was made: make the scheduler after the "
               "last group.",
               lrs.size(), group_count()));
  }
  for (std::size_t group = 0; group < lrs.size(); ++group) lrs[group] = next_lr(group, lrs[group]);
  set_lrs(lrs);
}

void SteppedLrScheduler::take_new_groups() {
  if (!takes_new_groups()) return;
  const detail::InitialLrs initial = detail::initial_lrs(optimizer_);
  base_lrs_.insert(base_lrs_.end(), initial->begin() + static_cast<std::ptrdiff_t>(group_count()), initial->end());
}

void SteppedLrScheduler::restart() {
  last_epoch_ = 0;
  before_step();
  take_new_groups();
  std::vector<double> lrs;
  for (std::size_t group = 0; group < group_count(); ++group) lrs.push_back(first_lr(group));
  set_lrs(lrs);
}

void SteppedLrScheduler::set_lrs(const std::vector<double>& lrs) {
  for (std::size_t group = 0; group < lrs.size(); ++group) set_lr(optimizer_.param_groups()[group], lrs[group]);
  last_lr_ = lrs;
}

void SteppedLrScheduler::set_initial_lr(std::size_t group, double lr) { (*initial_lrs_)[group] = base_lrs_[group] = lr; }

Value SteppedLrScheduler::state_dict() const {
  Value state(Value::Map{});
  save_state(state);
  state["last_epoch"] = last_epoch_;
  state["base_lrs"] = OptionType<std::vector<double>>::write(base_lrs_);
  state["_last_lr"] = OptionType<std::vector<double>>::write(last_lr_);
  return state;
}

void SteppedLrScheduler::load_state_dict(const Value& state) {
  const std::int64_t last_epoch = state.at("last_epoch").as_int();
  auto base_lrs = OptionType<std::vector<double>>::read(state.at("base_lrs"));
  auto last_lr = OptionType<std::vector<double>>::read(state.at("_last_lr"));
  // What hooks have added is there by now, but may not have had a step yet.
  const bool fits = takes_new_groups() ? base_lrs.size() <= optimizer_.param_groups().size() : base_lrs.size() == group_count();
  if (!fits || last_lr.size() != base_lrs.size()) {
    throw ConfigError(format("The scheduler's saved state is for {} parameter groups, but its optimizer has {}.",
                             base_lrs.size(), optimizer_.param_groups().size()));
  }
  load_state(state);
  // Groups that were added had these rates when they were; by now they have others.
  for (std::size_t group = group_count(); group < base_lrs.size(); ++group) {
    initial_lrs_->resize(std::max(initial_lrs_->size(), base_lrs.size()));
    (*initial_lrs_)[group] = base_lrs[group];
  }
  last_epoch_ = last_epoch;
  base_lrs_ = std::move(base_lrs);
  last_lr_ = std::move(last_lr);
}

void SteppedLrScheduler::save_state(Value&) const {}
void SteppedLrScheduler::load_state(const Value&) {}

std::vector<double> PerGroup::expand(std::size_t groups, const std::string& option) const {
  if (!is_list_) return std::vector<double>(groups, values_.front());
  if (values_.size() != groups) {
    throw ConfigError(
        format("{} has {} values, but the optimizer has {} parameter groups: give one value, or one for each group.", option,
               values_.size(), groups));
  }
  return values_;
}

PerGroup OptionType<PerGroup>::read(const Value& value) {
  if (value.is_list()) return PerGroup(OptionType<std::vector<double>>::read(value));
  if (!value.is_number()) detail::throw_wrong_type(value, name());
  return PerGroup(OptionType<double>::read(value));
}

Value OptionType<PerGroup>::write(const PerGroup& value) {
  if (value.is_list()) return OptionType<std::vector<double>>::write(value.values());
  return value.values().front();
}

Value OptionType<PerGroup>::schema() {
  Value either(Value::Map{});
  either["anyOf"] = Value(Value::List{OptionType<double>::schema(), OptionType<std::vector<double>>::schema()});
  return either;
}

}  // namespace levin
