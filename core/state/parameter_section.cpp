#include "levin/core/state/parameter_section.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/tensor_range.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Groups = ParameterGroups;

using Names = std::map<const at::TensorImpl*, std::string>;

Names names_of(const Module& module) {
  Names names;
  for (auto& [name, parameter] : distinct_parameters(module)) names.emplace(parameter.unsafeGetTensorImpl(), std::move(name));
  return names;
}

std::vector<at::Tensor> all_of(const Groups& groups) {
  std::vector<at::Tensor> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// A list for each group, to which `add` adds its parameters.
template <class Add>
Value listed(const Groups& groups, const Add& add) {
  Value::List lists;
  for (const auto& group : groups) {
    Value& list = lists.emplace_back(Value::List{});
    for (const at::Tensor& parameter : group) add(list, parameter.unsafeGetTensorImpl());
  }
  return lists;
}

/// The names of an optimizer's parameters, by group; null for one that is not the module's.
Value named_groups(const Optimizer& optimizer, const Names& names) {
  return listed(groups_of(optimizer), [&](Value& list, const at::TensorImpl* parameter) {
    const auto name = names.find(parameter);
    list.push_back(name == names.end() ? Value() : Value(name->second));
  });
}

/// The groups of a moment, each parameter as its number among all that the optimizer has now.
Value numbered_groups(const Groups& groups, const std::vector<at::Tensor>& all) {
  std::map<const at::TensorImpl*, std::size_t> numbers;
  for (const at::Tensor& parameter : all) numbers.emplace(parameter.unsafeGetTensorImpl(), numbers.size());
  return listed(groups, [&](Value& list, const at::TensorImpl* parameter) {
    const auto number = numbers.find(parameter);
    if (number != numbers.end()) list.push_back(static_cast<std::int64_t>(number->second));
  });
}

Value saved_moment(const TrainerState& run, const ParameterSet& set, const Names& names) {
  Value moment(Value::Map{});
  moment["frozen"] = Value(Value::List{});
  for (std::size_t index = 0; index < set.parameters.size(); ++index) {
    const auto name = names.find(set.parameters[index].unsafeGetTensorImpl());
    if (!set.trained[index] && name != names.end()) moment["frozen"].push_back(name->second);
  }
  moment["optimizers"] = Value(Value::List{});
  for (std::size_t index = 0; index < set.optimizers.size(); ++index) {
    moment["optimizers"].push_back(numbered_groups(set.optimizers[index], all_parameters(*run.parts.optimizers[index])));
  }
  return moment;
}

/// Stands for a replaced parameter, which is in an optimizer but not in the module. Its state has the parameter's shape.
at::Tensor placeholder(const Checkpoint& checkpoint, std::size_t optimizer, std::size_t number) {
  const std::string prefix = format("optimizer_states.{}.state.{}.", optimizer, number);
  for (const auto& [name, tensor] : tensors_with_prefix(checkpoint, prefix)) {
    if (tensor.dim() > 0) return at::zeros(tensor.sizes(), tensor.options());
  }
  return at::zeros({});
}

/// The groups of the checkpoint's optimizer, made of the module's parameters.
Groups saved_groups(const Value& names, const Module& module, const Groups& own, std::size_t index,
                    const Checkpoint& checkpoint) {
  const auto parameters = module.named_parameters();
  const auto own_names = names_of(module);
  Groups groups;
  std::size_t number = 0;
  for (const Value& saved : names.as_list()) {
    const std::size_t group = groups.size();
    groups.emplace_back();
    for (const Value& name : saved.as_list()) {
      const std::size_t at = groups[group].size();
      if (!name.is_null()) {
        const at::Tensor* parameter = parameters.find(name.as_string());
        if (parameter == nullptr) {
          throw ConfigError(format(
              "ckpt_path: the checkpoint's optimizer {} has the parameter '{}', which the module lacks. What hooks add while "
              "training runs has to be there when a checkpoint is loaded: create it in setup() or on_load_checkpoint().",
              index, name.as_string()));
        }
        groups[group].push_back(*parameter);
      } else if (group < own.size() && at < own[group].size() && !own_names.contains(own[group][at].unsafeGetTensorImpl())) {
        groups[group].push_back(own[group][at]);
      } else {
        groups[group].push_back(placeholder(checkpoint, index, number));
      }
      ++number;
    }
  }
  return groups;
}

/// The group of `known` that has the first of these parameters; null when there is none.
const OptimizerParamGroup* find_group(const std::vector<OptimizerParamGroup>& known,
                                      const std::vector<at::Tensor>& parameters) {
  const auto found = std::ranges::find_if(known, [&](const OptimizerParamGroup& group) {
    return !parameters.empty() && is_one_of(parameters.front(), group.params());
  });
  return found == known.end() ? nullptr : &*found;
}

/// Gives an optimizer these groups, with the options that a group with the first of its parameters has, or had.
void set_groups(Optimizer& optimizer, const Groups& groups, const std::vector<OptimizerParamGroup>& known) {
  if (are_same(groups_of(optimizer), groups)) return;
  std::vector<OptimizerParamGroup> made;
  for (const auto& parameters : groups) {
    const OptimizerParamGroup* group = find_group(optimizer.param_groups(), parameters);
    if (group == nullptr) group = find_group(known, parameters);
    made.emplace_back(parameters, (group != nullptr ? group->options() : optimizer.defaults()).clone());
  }
  optimizer.param_groups() = std::move(made);
}

/// Repeated hooks may have set other options, or added groups that no schedule has changed yet.
void restore_options(Optimizer& optimizer, const std::vector<OptimizerParamGroup>& saved) {
  for (OptimizerParamGroup& group : optimizer.param_groups()) {
    if (const auto* const found = find_group(saved, group.params())) group.set_options(found->options().clone());
  }
}

bool cover(const Groups& groups, const Optimizer& optimizer) {
  const std::vector<at::Tensor> own = all_parameters(optimizer);
  const std::vector<at::Tensor> all = all_of(groups);
  return std::ranges::all_of(own, [&](const at::Tensor& parameter) { return is_one_of(parameter, all); });
}

std::set<std::string> texts_of(const Value& list) {
  std::set<std::string> texts;
  for (const Value& text : list.as_list()) texts.insert(text.as_string());
  return texts;
}

/// A user who has changed which parameters are frozen learns that the checkpoint decides.
void say_what_else_is_frozen(const Module& module, const std::set<std::string>& frozen) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    if (parameter.requires_grad() == frozen.contains(name)) names.push_back(name);
  }
  if (names.empty()) return;
  rank_zero_info(format("As in the checkpoint's run, and not as the module was built, {} frozen or trained: {}.",
                        counted(names.size(), "parameter") + (names.size() == 1 ? " is" : " are"), some_of(names)));
}

/// The key of a moment in `trained_parameters`; kData has none.
const char* key_of(Moment moment) {
  switch (moment) {
    case Moment::kTrainStart:
      return "train_start";
    case Moment::kEpochStart:
      return "epoch_start";
    case Moment::kAgreed:
      return "agreed";
    case Moment::kPlace:
      return "place";
    case Moment::kData:
      break;
  }
  return "";
}

/// Optimizers have these groups while it lives; none: those that they have.
class GroupScope {
 public:
  GroupScope(const RunParts& parts, std::vector<std::vector<OptimizerParamGroup>> then) : parts_(parts) {
    for (auto& groups : then) {
      const std::size_t index = now_.size();
      now_.push_back(std::exchange(parts_.optimizers[index]->param_groups(), std::move(groups)));
    }
  }
  ~GroupScope() {
    for (std::size_t index = 0; index < now_.size(); ++index) {
      parts_.optimizers[index]->param_groups() = std::move(now_[index]);
    }
  }
  GroupScope(const GroupScope&) = delete;
  GroupScope& operator=(const GroupScope&) = delete;

 private:
  const RunParts& parts_;
  std::vector<std::vector<OptimizerParamGroup>> now_;
};

}  // namespace

std::shared_ptr<void> ParameterSection::hold(TrainerState& run) {
  std::vector<std::pair<at::Tensor, bool>> parameters;
  for (const at::Tensor& parameter : run.module().parameters()) parameters.emplace_back(parameter, parameter.requires_grad());
  return held([parameters = std::move(parameters)] {
    for (const auto& [parameter, requires_grad] : parameters) parameter.set_requires_grad(requires_grad);
  });
}

std::shared_ptr<const ParameterSet> ParameterSection::run_parameters(TrainerState& run) { return run.trained.now(); }

void ParameterSection::begin(TrainerState& run, Place place) {
  now_ = run.trained.now();
  agreed_ = run.trained.agreed();
  groups_.clear();
  if (!has_hooks_of_start_or_end(place)) return;
  for (const auto& optimizer : run.parts.optimizers) groups_.push_back(optimizer->param_groups());
}

Value ParameterSection::moments(TrainerState& run) const {
  const LoopPosition& position = run.resume.position;
  const auto names = names_of(run.module());
  Value state(Value::Map{});
  state["optimizers"] = Value(Value::List{});
  for (const auto& optimizer : run.parts.optimizers) state["optimizers"].push_back(named_groups(*optimizer, names));
  if (!has_begun()) return state;
  const auto add = [&](Moment moment, const ParameterSet& set) { state[key_of(moment)] = saved_moment(run, set, names); };
  add(Moment::kTrainStart, *at_train_start_);
  if (position.place == Place::kTrainStart) return state;
  if (!position.is_between_epochs()) add(Moment::kEpochStart, *at_epoch_start_);
  if (agreed_ != now_) add(Moment::kAgreed, *agreed_);
  add(Moment::kPlace, *now_);
  return state;
}

void ParameterSection::save(TrainerState& run, Checkpoint& checkpoint) {
  const GroupScope groups(run.parts, groups_);
  checkpoint.manifest["optimizer_states"] = Value(Value::List{});
  for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
    run.strategy().save_optimizer(*run.parts.optimizers[index], index, checkpoint, !run.entry.failing);
  }
  checkpoint.manifest["trained_parameters"] = moments(run);
}

void ParameterSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  forget();
  check_number(checkpoint.manifest.at("optimizer_states"), "optimizers", run.parts.optimizers.size());
  if (const Value* saved = checkpoint.manifest.find("trained_parameters")) loaded_ = *saved;
  for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
    Optimizer& optimizer = *run.parts.optimizers[index];
    if (loaded_.is_null()) {
      run.strategy().load_optimizer(optimizer, index, checkpoint);
      continue;
    }
    Saved& saved = optimizers_.emplace_back();
    saved.own = groups_of(optimizer);
    const std::vector<OptimizerParamGroup> own_groups = optimizer.param_groups();
    saved.groups = saved_groups(loaded_.at("optimizers").as_list().at(index), run.module(), saved.own, index, checkpoint);
    // Before training begins, hooks that have run have also set what hooks after the saving one had set.
    const bool in_training = loaded_.contains(key_of(Moment::kTrainStart));
    // An optimizer that has more than the checkpoint's fails when it is loaded.
    if (cover(saved.groups, optimizer) || !in_training) set_groups(optimizer, saved.groups, {});
    run.strategy().load_optimizer(optimizer, index, checkpoint);
    if (!in_training) restore_options(optimizer, own_groups);
    for (const OptimizerParamGroup& group : optimizer.param_groups()) saved.known.push_back(group);
    for (const OptimizerParamGroup& group : own_groups) saved.known.push_back(group);
  }
  if (const Value* place = loaded_.find(key_of(Moment::kPlace)))
    say_what_else_is_frozen(run.module(), texts_of(place->at("frozen")));
}

void ParameterSection::restore(TrainerState& run, Moment moment) {
  const Value* const saved = loaded_.find(key_of(moment));
  if (saved != nullptr) {
    const std::set<std::string> frozen = texts_of(saved->at("frozen"));
    for (const auto& [name, parameter] : distinct_parameters(run.module())) {
      if (parameter.requires_grad() == frozen.contains(name)) parameter.requires_grad_(!frozen.contains(name));
    }
  }
  restore_groups(run, moment, saved);
}

void ParameterSection::restore_groups(TrainerState& run, Moment moment, const Value* saved) {
  for (std::size_t index = 0; index < optimizers_.size(); ++index) {
    Optimizer& optimizer = *run.parts.optimizers[index];
    Saved& of_optimizer = optimizers_[index];
    if (saved != nullptr) {
      const std::vector<at::Tensor> all = all_of(of_optimizer.groups);
      Groups groups;
      for (const Value& numbers : saved->at("optimizers").as_list().at(index).as_list()) {
        groups.emplace_back();
        for (const Value& number : numbers.as_list())
          groups.back().push_back(all.at(static_cast<std::size_t>(number.as_int())));
      }
      restore(optimizer, of_optimizer, groups);
      if (moment == Moment::kPlace) restore_options(optimizer, of_optimizer.known);
    } else if (moment == Moment::kTrainStart) {
      set_groups(optimizer, of_optimizer.own, of_optimizer.known);
    }
  }
}

void ParameterSection::restore(Optimizer& optimizer, Saved& saved, const Groups& groups) {
  set_groups(optimizer, groups, saved.known);
  const std::vector<at::Tensor> in_groups = all_parameters(optimizer);
  // A parameter in no group must have no state: otherwise LibTorch would not let hooks add it.
  for (const at::Tensor& parameter : all_of(saved.groups)) {
    at::TensorImpl* const key = parameter.unsafeGetTensorImpl();
    const bool is_in_group = is_one_of(parameter, in_groups);
    const auto state = optimizer.state().find(key);
    const auto aside = saved.set_aside.find(key);
    if (is_in_group && aside != saved.set_aside.end()) {
      optimizer.state()[key] = std::move(aside->second);
      saved.set_aside.erase(aside);
    } else if (!is_in_group && state != optimizer.state().end()) {
      saved.set_aside[key] = std::move(state->second);
      optimizer.state().erase(state);
    }
  }
}

void ParameterSection::forget() {
  loaded_ = {};
  optimizers_.clear();
}

}  // namespace levin
