#include "levin/optim/stepped_lr_scheduler.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

/// The learning rates that an optimizer's groups had before its first scheduler touched them: PyTorch's `initial_lr`. All
/// schedulers of one optimizer share them, so that chained and sequential schedules start from the same base. They live as long
/// as one of the schedulers does. Threading: any thread.
std::shared_ptr<std::vector<double>> initial_lrs(const torch::optim::Optimizer& optimizer) {
  static std::mutex mutex;
  // An entry expires with the last scheduler of its optimizer, and a scheduler does not outlive its optimizer: an optimizer
  // that is made later at the same address finds nothing here.
  static auto& all = *new std::map<const torch::optim::Optimizer*, std::weak_ptr<std::vector<double>>>;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  auto initial = all[&optimizer].lock();
  if (!initial) all[&optimizer] = initial = std::make_shared<std::vector<double>>(get_lrs(optimizer));
  // Groups that were added since the first scheduler was made start from their present rate.
  const std::vector<double> present = get_lrs(optimizer);
  for (std::size_t group = initial->size(); group < present.size(); ++group) initial->push_back(present[group]);
  return initial;
}

}  // namespace

SteppedLrScheduler::SteppedLrScheduler(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer), initial_lrs_(initial_lrs(optimizer)), base_lrs_(*initial_lrs_) {}

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
  const auto initial = initial_lrs(optimizer_);
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
  // Groups that hooks have added exist by now, but may not have had a step yet.
  const bool fits = takes_new_groups() ? base_lrs.size() <= optimizer_.param_groups().size() : base_lrs.size() == group_count();
  if (!fits || last_lr.size() != base_lrs.size()) {
    throw ConfigError(format("The scheduler's saved state is for {} parameter groups, but its optimizer has {}.",
                             base_lrs.size(), optimizer_.param_groups().size()));
  }
  // Options may have something for each group.
  base_lrs.swap(base_lrs_);
  try {
    load_state(state);
  } catch (...) {
    base_lrs.swap(base_lrs_);
    throw;
  }
  // Groups that were added had these rates when they were; by now they have others.
  initial_lrs_->resize(std::max(initial_lrs_->size(), base_lrs_.size()));
  for (std::size_t group = base_lrs.size(); group < base_lrs_.size(); ++group) (*initial_lrs_)[group] = base_lrs_[group];
  last_epoch_ = last_epoch;
  last_lr_ = std::move(last_lr);
}

void SteppedLrScheduler::change_rates(const RateChange& change) {
  take_new_groups();
  while (last_lr_.size() < group_count()) last_lr_.push_back(get_lr(optimizer_.param_groups()[last_lr_.size()]));
  LrScheduler::change_rates(change);
}

void detail::check_one_for_each_group(std::size_t values, std::size_t groups, const std::string& option) {
  if (values == groups) return;
  throw ConfigError(
      format("{} has {} values, but the optimizer has {} parameter groups: give one value, or one for each group.", option,
             values, groups));
}

}  // namespace levin
