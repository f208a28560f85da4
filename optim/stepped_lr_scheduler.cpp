#include "levin/optim/stepped_lr_scheduler.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/lr_schedulers.h"

// What schedulers are made of, and several of them as one.
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

void SteppedLrScheduler::change_rates(const RateChange& change) {
  take_new_groups();
  while (last_lr_.size() < group_count()) last_lr_.push_back(get_lr(optimizer_.param_groups()[last_lr_.size()]));
  LrScheduler::change_rates(change);
}

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
  return detail::any_of({OptionType<double>::schema(), OptionType<std::vector<double>>::schema()});
}

namespace {

std::vector<std::shared_ptr<LrScheduler>> made(torch::optim::Optimizer& optimizer, const SequentialLrOptions& options,
                                               const ScheduleLength& length) {
  std::vector<std::shared_ptr<LrScheduler>> schedulers;
  for (std::size_t index = 0; index < options.schedulers.size(); ++index) {
    const auto& factory = options.schedulers[index];
    const std::int64_t begin = index == 0 ? 0 : options.milestones[index - 1];
    const auto end = index < options.milestones.size() ? std::optional(options.milestones[index]) : std::nullopt;
    schedulers.push_back(factory.get()->make(optimizer, length.part(begin, end, factory.class_path().mark())));
  }
  return schedulers;
}

std::shared_ptr<SteppedLrScheduler> checked_member(const std::shared_ptr<LrScheduler>& scheduler, std::size_t index,
                                                   const torch::optim::Optimizer& optimizer) {
  const std::string place = format("SequentialLR: scheduler {}", index);
  auto stepped = std::dynamic_pointer_cast<SteppedLrScheduler>(scheduler);
  if (!stepped) {
    throw ConfigError(place + " cannot be part of a sequence: ReduceLROnPlateau needs a metric, and sequences do not nest " +
                      "(write one flat list).");
  }
  if (&stepped->optimizer() != &optimizer) throw ConfigError(place + " steps another optimizer than the sequence does.");
  return stepped;
}

/// What is wrong with the parts of a sequence; "" when nothing is.
std::string sequence_problem(std::size_t schedulers, const std::vector<std::int64_t>& milestones) {
  if (schedulers != milestones.size() + 1) {
    return format("there must be one scheduler more than milestones, but there are {} schedulers and {} milestones", schedulers,
                  milestones.size());
  }
  return std::is_sorted(milestones.begin(), milestones.end()) ? "" : "the milestones must rise";
}

}  // namespace

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<SequentialLr>, "SequentialLR",
                "Several schedules, one after the other");

void SequentialLrOptions::declare(OptionList<SequentialLrOptions>& options) {
  options.add(&SequentialLrOptions::schedulers, "The schedules, each a class_path with init_args").required();
  options.add(&SequentialLrOptions::milestones, "Steps at which the second, third, … schedule begins").required();
  options.rule({"milestones", "schedulers"}, [](const SequentialLrOptions& sequence) {
    return sequence_problem(sequence.schedulers.size(), sequence.milestones);
  });
}

SequentialLr::SequentialLr(torch::optim::Optimizer& optimizer, const SequentialLrOptions& options, const ScheduleLength& length)
    : SequentialLr(optimizer, made(optimizer, checked("SequentialLR", options), length), options.milestones) {}

SequentialLr::SequentialLr(torch::optim::Optimizer& optimizer, const std::vector<std::shared_ptr<LrScheduler>>& schedulers,
                           std::vector<std::int64_t> milestones)
    : optimizer_(optimizer), milestones_(std::move(milestones)) {
  const std::string problem = sequence_problem(schedulers.size(), milestones_);
  if (!problem.empty()) throw ConfigError("SequentialLR: " + problem);
  for (std::size_t index = 0; index < schedulers.size(); ++index) {
    schedulers_.push_back(checked_member(schedulers[index], index, optimizer));
  }
  // Each member has taken its step 0 when it was made. Undo all of that, then start only the one that is due.
  const auto initial = initial_lrs(optimizer);
  for (std::size_t group = 0; group < initial->size(); ++group) set_lr(optimizer.param_groups()[group], (*initial)[group]);
  for (const auto& scheduler : schedulers_) scheduler->undo_start();
  schedulers_[due(0)]->start();
  last_lr_ = schedulers_[due(0)]->last_lr();
}

std::size_t SequentialLr::due(std::int64_t step) const {
  return static_cast<std::size_t>(std::upper_bound(milestones_.begin(), milestones_.end(), step) - milestones_.begin());
}

void SequentialLr::step(std::optional<double>) {
  ++last_epoch_;
  const std::size_t index = due(last_epoch_);
  SteppedLrScheduler& scheduler = *schedulers_[index];
  if (index > 0 && milestones_[index - 1] == last_epoch_) {
    scheduler.restart();
  } else {
    scheduler.step();
  }
  last_lr_ = scheduler.last_lr();
}

void SequentialLr::change_rates(const RateChange& change) {
  for (const auto& scheduler : schedulers_) scheduler->change_rates(change);
  LrScheduler::change_rates(change);
}

Value SequentialLr::state_dict() const {
  Value state(Value::Map{});
  state["_milestones"] = OptionType<std::vector<std::int64_t>>::write(milestones_);
  state["last_epoch"] = last_epoch_;
  state["_last_lr"] = OptionType<std::vector<double>>::write(last_lr_);
  Value members(Value::List{});
  for (const auto& scheduler : schedulers_) members.push_back(scheduler->state_dict());
  state["_schedulers"] = std::move(members);
  return state;
}

void SequentialLr::load_state_dict(const Value& state) {
  const Value::List& members = state.at("_schedulers").as_list();
  auto milestones = OptionType<std::vector<std::int64_t>>::read(state.at("_milestones"));
  auto last_lr = OptionType<std::vector<double>>::read(state.at("_last_lr"));
  const std::int64_t last_epoch = state.at("last_epoch").as_int();
  if (members.size() != schedulers_.size() || milestones.size() != milestones_.size()) {
    throw ConfigError(
        format("SequentialLR: the saved state has {} schedulers, but this one has {}.", members.size(), schedulers_.size()));
  }
  for (std::size_t index = 0; index < members.size(); ++index) schedulers_[index]->load_state_dict(members[index]);
  milestones_ = std::move(milestones);
  last_lr_ = std::move(last_lr);
  last_epoch_ = last_epoch;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ChainedScheduler>, "ChainedScheduler", "Several schedules at once");

void ChainedSchedulerOptions::declare(OptionList<ChainedSchedulerOptions>& options) {
  options.add(&ChainedSchedulerOptions::schedulers, "The schedules, each a class_path with init_args").required();
}

namespace {

std::vector<std::shared_ptr<LrScheduler>> made_of_length(torch::optim::Optimizer& optimizer,
                                                         const ChainedSchedulerOptions& options, const ScheduleLength& length) {
  std::vector<std::shared_ptr<LrScheduler>> schedulers;
  for (const auto& factory : options.schedulers) {
    schedulers.push_back(factory.get()->make(optimizer, length.part(0, std::nullopt, factory.class_path().mark())));
  }
  return schedulers;
}

}  // namespace

ChainedScheduler::ChainedScheduler(torch::optim::Optimizer& optimizer, const ChainedSchedulerOptions& options,
                                   const ScheduleLength& length)
    : ChainedScheduler(optimizer, made_of_length(optimizer, checked("ChainedScheduler", options), length)) {}

ChainedScheduler::ChainedScheduler(torch::optim::Optimizer& optimizer, std::vector<std::shared_ptr<LrScheduler>> schedulers)
    : optimizer_(optimizer), schedulers_(std::move(schedulers)), last_lr_(get_lrs(optimizer)) {
  if (schedulers_.empty()) throw ConfigError("ChainedScheduler: schedulers is empty: give one at least.");
  for (std::size_t index = 0; index < schedulers_.size(); ++index) {
    const std::string place = format("ChainedScheduler: scheduler {}", index);
    if (schedulers_[index]->needs_metric())
      throw ConfigError(place + " needs a metric, as ReduceLROnPlateau does: let it stand alone.");
    if (&schedulers_[index]->optimizer() != &optimizer)
      throw ConfigError(place + " steps another optimizer than the chain does.");
  }
}

void ChainedScheduler::step(std::optional<double>) {
  for (const auto& scheduler : schedulers_) scheduler->step();
  last_lr_ = get_lrs(optimizer_);
}

void ChainedScheduler::change_rates(const RateChange& change) {
  for (const auto& scheduler : schedulers_) scheduler->change_rates(change);
  LrScheduler::change_rates(change);
}

Value ChainedScheduler::state_dict() const {
  Value state(Value::Map{});
  state["_last_lr"] = OptionType<std::vector<double>>::write(last_lr_);
  Value members(Value::List{});
  for (const auto& scheduler : schedulers_) members.push_back(scheduler->state_dict());
  state["_schedulers"] = std::move(members);
  return state;
}

void ChainedScheduler::load_state_dict(const Value& state) {
  const Value::List& members = state.at("_schedulers").as_list();
  auto last_lr = OptionType<std::vector<double>>::read(state.at("_last_lr"));
  if (members.size() != schedulers_.size()) {
    throw ConfigError(format("ChainedScheduler: the saved state has {} schedulers, but this one has {}.", members.size(),
                             schedulers_.size()));
  }
  for (std::size_t index = 0; index < members.size(); ++index) schedulers_[index]->load_state_dict(members[index]);
  last_lr_ = std::move(last_lr);
}

}  // namespace levin
