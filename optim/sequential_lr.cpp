#include "levin/optim/sequential_lr.h"

#include <torch/optim/optimizer.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/initial_lr.h"

namespace levin {
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

void SequentialLrOptions::declare(OptionList<SequentialLrOptions>& options) {
  options.add("schedulers", &SequentialLrOptions::schedulers, "The schedules, each a class_path with init_args").required();
  options.add("milestones", &SequentialLrOptions::milestones, "Steps at which the second, third, … schedule begins").required();
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
  const detail::InitialLrs initial = detail::initial_lrs(optimizer);
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

}  // namespace levin
