#include "levin/optim/composed_lr_schedulers.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

using Schedulers = std::vector<std::shared_ptr<LrScheduler>>;

/// Schedules by name: one after another where there are milestones, else each over the whole length.
Schedulers made(torch::optim::Optimizer& optimizer, const std::vector<Component<LrSchedulerFactory>>& factories,
                const std::vector<std::int64_t>& milestones, const ScheduleLength& length) {
  Schedulers schedulers;
  for (std::size_t index = 0; index < factories.size(); ++index) {
    const std::int64_t begin = index == 0 || milestones.empty() ? 0 : milestones[index - 1];
    const auto end = index < milestones.size() ? std::optional(milestones[index]) : std::nullopt;
    const auto& factory = factories[index];
    schedulers.push_back(factory.get()->make(optimizer, length.part(begin, end, factory.class_path().mark())));
  }
  return schedulers;
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

detail::SchedulerList::SchedulerList(const char* class_name, torch::optim::Optimizer& optimizer, Schedulers schedulers)
    : class_name_(class_name), optimizer_(optimizer), schedulers_(std::move(schedulers)), last_lr_(get_lrs(optimizer)) {
  for (std::size_t index = 0; index < schedulers_.size(); ++index) {
    if (&schedulers_[index]->optimizer() == &optimizer) continue;
    throw ConfigError(format("{}: scheduler {} steps another optimizer than it was given.", class_name, index));
  }
}

Value detail::SchedulerList::state_dict() const {
  Value state(Value::Map{});
  state["_last_lr"] = OptionType<std::vector<double>>::write(last_lr_);
  Value members(Value::List{});
  for (const auto& scheduler : schedulers_) members.push_back(scheduler->state_dict());
  state["_schedulers"] = std::move(members);
  return state;
}

void detail::SchedulerList::load_state_dict(const Value& state) {
  const Value::List& members = state.at("_schedulers").as_list();
  auto last_lr = OptionType<std::vector<double>>::read(state.at("_last_lr"));
  if (members.size() != schedulers_.size()) {
    throw ConfigError(
        format("{}: the saved state has {} schedulers, but this one has {}.", class_name_, members.size(), schedulers_.size()));
  }
  for (std::size_t index = 0; index < members.size(); ++index) schedulers_[index]->load_state_dict(members[index]);
  last_lr_ = std::move(last_lr);
}

void detail::SchedulerList::change_rates(const RateChange& change) {
  for (const auto& scheduler : schedulers_) scheduler->change_rates(change);
  LrScheduler::change_rates(change);
}

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
    : SequentialLr(optimizer, made(optimizer, checked("SequentialLR", options).schedulers, options.milestones, length),
                   options.milestones) {}

SequentialLr::SequentialLr(torch::optim::Optimizer& optimizer, Schedulers schedulers, std::vector<std::int64_t> milestones)
    : SchedulerList("SequentialLR", optimizer, std::move(schedulers)), milestones_(std::move(milestones)) {
  const std::string problem = sequence_problem(schedulers_.size(), milestones_);
  if (!problem.empty()) throw ConfigError("SequentialLR: " + problem);
  for (std::size_t index = 0; index < schedulers_.size(); ++index) {
    if (dynamic_cast<SteppedLrScheduler*>(schedulers_[index].get()) != nullptr) continue;
    throw ConfigError(
        format("SequentialLR: scheduler {} cannot be part of a sequence: ReduceLROnPlateau needs a metric, and "
               "sequences do not nest (write one flat list).",
               index));
  }
  // Each member has taken its step 0 when it was made. Undo all of that, then start only the one that is due.
  const std::vector<double>& initial = *member(0).initial_lrs_;
  for (std::size_t group = 0; group < initial.size(); ++group) set_lr(optimizer.param_groups()[group], initial[group]);
  for (std::size_t index = 0; index < schedulers_.size(); ++index) member(index).undo_start();
  member(due(0)).start();
  last_lr_ = member(due(0)).last_lr();
}

std::size_t SequentialLr::due(std::int64_t step) const {
  return static_cast<std::size_t>(std::upper_bound(milestones_.begin(), milestones_.end(), step) - milestones_.begin());
}

void SequentialLr::step(std::optional<double>) {
  ++last_epoch_;
  const std::size_t index = due(last_epoch_);
  if (index > 0 && milestones_[index - 1] == last_epoch_) {
    member(index).restart();
  } else {
    member(index).step();
  }
  last_lr_ = member(index).last_lr();
}

Value SequentialLr::state_dict() const {
  Value state = SchedulerList::state_dict();
  state["_milestones"] = OptionType<std::vector<std::int64_t>>::write(milestones_);
  state["last_epoch"] = last_epoch_;
  return state;
}

void SequentialLr::load_state_dict(const Value& state) {
  auto milestones = OptionType<std::vector<std::int64_t>>::read(state.at("_milestones"));
  const std::int64_t last_epoch = state.at("last_epoch").as_int();
  if (milestones.size() != milestones_.size()) {
    throw ConfigError(format("SequentialLR: the saved state has {} schedulers, but this one has {}.", milestones.size() + 1,
                             schedulers_.size()));
  }
  SchedulerList::load_state_dict(state);
  milestones_ = std::move(milestones);
  last_epoch_ = last_epoch;
}

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<ChainedScheduler>, "ChainedScheduler", "Several schedules at once");

void ChainedSchedulerOptions::declare(OptionList<ChainedSchedulerOptions>& options) {
  options.add(&ChainedSchedulerOptions::schedulers, "The schedules, each a class_path with init_args").required();
}

ChainedScheduler::ChainedScheduler(torch::optim::Optimizer& optimizer, const ChainedSchedulerOptions& options,
                                   const ScheduleLength& length)
    : ChainedScheduler(optimizer, made(optimizer, checked("ChainedScheduler", options).schedulers, {}, length)) {}

ChainedScheduler::ChainedScheduler(torch::optim::Optimizer& optimizer, Schedulers schedulers)
    : SchedulerList("ChainedScheduler", optimizer, std::move(schedulers)) {
  if (schedulers_.empty()) throw ConfigError("ChainedScheduler: schedulers is empty: give one at least.");
  for (std::size_t index = 0; index < schedulers_.size(); ++index) {
    if (!schedulers_[index]->needs_metric()) continue;
    throw ConfigError(
        format("ChainedScheduler: scheduler {} needs a metric, as ReduceLROnPlateau does: let it stand alone.", index));
  }
}

void ChainedScheduler::step(std::optional<double>) {
  for (const auto& scheduler : schedulers_) scheduler->step();
  last_lr_ = get_lrs(optimizer_);
}

}  // namespace levin
