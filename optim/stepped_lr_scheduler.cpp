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

LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<LambdaLr>, "LambdaLR",
                "The initial rate times an expression of the step");
LEVIN_REGISTER_(LrSchedulerFactory, LrSchedulerFactoryOf<MultiplicativeLr>, "MultiplicativeLR",
                "Multiplies the rate at every step by an expression of the step");

namespace {

constexpr const char* kFactorHelp =
    "as an expression of epoch or step, both the number of the step: '0.95 ** epoch'; a list has one for each parameter group";

template <class Options>
std::vector<std::function<double(std::int64_t)>> functions_of(const Options& options, std::size_t groups) {
  std::vector<std::function<double(std::int64_t)>> functions;
  const auto expressions = options.lr_lambda.expand(groups, format("{}: lr_lambda", Options::kName));
  for (const LrExpression& expression : expressions) functions.emplace_back(expression);
  return functions;
}

}  // namespace

void LambdaLrOptions::declare(OptionList<LambdaLrOptions>& options) {
  options.add(&LambdaLrOptions::lr_lambda, std::string("Factor of the initial rate, ") + kFactorHelp).required();
}
void MultiplicativeLrOptions::declare(OptionList<MultiplicativeLrOptions>& options) {
  options.add(&MultiplicativeLrOptions::lr_lambda, std::string("Factor of each step, ") + kFactorHelp).required();
}

template <class OptionsType>
FunctionLr<OptionsType>::FunctionLr(torch::optim::Optimizer& optimizer, const Factor& lr_lambda)
    : FunctionLr(optimizer, std::vector<Factor>(optimizer.param_groups().size(), lr_lambda)) {}

template <class OptionsType>
FunctionLr<OptionsType>::FunctionLr(torch::optim::Optimizer& optimizer, const OptionsType& options)
    : FunctionLr(optimizer, functions_of(options, optimizer.param_groups().size())) {}

template <class OptionsType>
FunctionLr<OptionsType>::FunctionLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas)
    : SteppedLrScheduler(optimizer), lr_lambdas_(std::move(lr_lambdas)) {
  if (lr_lambdas_.size() != group_count()) {
    throw MisuseError(
        format("{} has {} functions, but the optimizer has {} parameter groups: give one function, or one for each group.",
               OptionsType::kName, lr_lambdas_.size(), group_count()));
  }
  start();
}

template <class OptionsType>
double FunctionLr<OptionsType>::next_lr(std::size_t group, double lr) {
  if constexpr (std::is_same_v<OptionsType, LambdaLrOptions>) return base_lr(group) * lr_lambdas_[group](last_epoch());
  return last_epoch() == 0 ? lr : lr * lr_lambdas_[group](last_epoch());
}

// Within a sequence MultiplicativeLR goes on from the rate that the schedule before has left, as PyTorch's does.
template <class OptionsType>
double FunctionLr<OptionsType>::first_lr(std::size_t group) const {
  const bool is_of_initial = std::is_same_v<OptionsType, LambdaLrOptions>;
  return (is_of_initial ? base_lr(group) : get_lr(optimizer().param_groups()[group])) * lr_lambdas_[group](0);
}

// As PyTorch does: functions are not saved.
template <class OptionsType>
void FunctionLr<OptionsType>::save_state(Value& state) const {
  state["lr_lambdas"] = Value(Value::List(lr_lambdas_.size()));
}

template class FunctionLr<LambdaLrOptions>;
template class FunctionLr<MultiplicativeLrOptions>;

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
  const auto initial = initial_lrs(optimizer);
  for (std::size_t group = 0; group < initial->size(); ++group) set_lr(optimizer.param_groups()[group], (*initial)[group]);
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
