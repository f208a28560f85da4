#include "levin/core/engine/resume/parameter_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/parts/module_modes.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using Groups = ParameterSet::Groups;

constexpr const char* kKey = "trained_parameters";

std::map<const at::TensorImpl*, std::string> names_of(const Module& module) {
  std::map<const at::TensorImpl*, std::string> names;
  for (auto& [name, parameter] : distinct_parameters(module)) names.emplace(parameter.unsafeGetTensorImpl(), std::move(name));
  return names;
}

bool contains(const std::vector<at::Tensor>& tensors, const at::Tensor& wanted) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) { return tensor.is_same(wanted); });
}

// ---- Saving ----------------------------------------------------------------------------------------------------------------

/// The names of an optimizer's parameters, by group; null for one that is not the module's.
Value named_groups(const Optimizer& optimizer, const std::map<const at::TensorImpl*, std::string>& names) {
  Value groups(Value::List{});
  for (const auto& group : optimizer.param_groups()) {
    Value parameters(Value::List{});
    for (const at::Tensor& parameter : group.params()) {
      const auto name = names.find(parameter.unsafeGetTensorImpl());
      parameters.push_back(name == names.end() ? Value() : Value(name->second));
    }
    groups.push_back(std::move(parameters));
  }
  return groups;
}

/// The groups of a moment, each parameter as its number among all that the optimizer has now.
Value numbered_groups(const Groups& groups, const std::vector<at::Tensor>& all) {
  std::map<const at::TensorImpl*, std::int64_t> numbers;
  for (const at::Tensor& parameter : all) {
    numbers.emplace(parameter.unsafeGetTensorImpl(), static_cast<std::int64_t>(numbers.size()));
  }
  Value saved(Value::List{});
  for (const auto& group : groups) {
    Value parameters(Value::List{});
    for (const at::Tensor& parameter : group) {
      const auto number = numbers.find(parameter.unsafeGetTensorImpl());
      if (number != numbers.end()) parameters.push_back(number->second);
    }
    saved.push_back(std::move(parameters));
  }
  return saved;
}

Value saved_moment(const TrainerState& run, const ParameterSet& set,
                   const std::map<const at::TensorImpl*, std::string>& names) {
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

// ---- Loading ---------------------------------------------------------------------------------------------------------------

/// Stands for a parameter that is in an optimizer, but not in the module: one that was replaced. Its state is of its shape.
at::Tensor placeholder(const Checkpoint& checkpoint, std::size_t optimizer, std::size_t number) {
  const std::string prefix = format("optimizer_states.{}.state.{}.", optimizer, number);
  for (auto entry = checkpoint.tensors.lower_bound(prefix);
       entry != checkpoint.tensors.end() && entry->first.starts_with(prefix); ++entry) {
    if (entry->second.dim() > 0) return at::zeros(entry->second.sizes(), entry->second.options());
  }
  return at::zeros({});
}

/// The groups that the checkpoint's optimizer has, made of the module's parameters.
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
          throw ConfigError(
              format("ckpt_path: the checkpoint's optimizer {} has the parameter '{}', which the module lacks. What hooks add "
                     "while training runs has to be there when a checkpoint is loaded: create it in setup() or "
                     "on_load_checkpoint().",
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

bool same(const Groups& groups, const Groups& others) {
  const auto same_tensor = [](const at::Tensor& one, const at::Tensor& other) { return one.is_same(other); };
  return std::equal(groups.begin(), groups.end(), others.begin(), others.end(), [&](const auto& group, const auto& other) {
    return std::equal(group.begin(), group.end(), other.begin(), other.end(), same_tensor);
  });
}

/// Gives an optimizer these groups. Options are those that a group with the first of its parameters has, or had.
void set_groups(Optimizer& optimizer, const Groups& groups, const std::vector<OptimizerParamGroup>& known) {
  if (same(ParameterSet::groups_of(optimizer), groups)) return;
  std::vector<OptimizerParamGroup> made;
  for (const auto& parameters : groups) {
    const auto has_first = [&](const OptimizerParamGroup& group) {
      return !parameters.empty() && contains(group.params(), parameters.front());
    };
    const auto& own = optimizer.param_groups();
    const auto present = std::find_if(own.begin(), own.end(), has_first);
    const auto earlier = std::find_if(known.begin(), known.end(), has_first);
    const bool is_present = present != own.end();
    const bool is_known = is_present || earlier != known.end();
    const OptimizerOptions& options = is_known ? (is_present ? *present : *earlier).options() : optimizer.defaults();
    made.emplace_back(parameters, options.clone());
  }
  optimizer.param_groups() = std::move(made);
}

/// Hooks that run once more may have set other options, or added groups that have not learned of a schedule.
void restore_options(Optimizer& optimizer, const std::vector<OptimizerParamGroup>& saved) {
  for (OptimizerParamGroup& group : optimizer.param_groups()) {
    const auto has_first = [&](const OptimizerParamGroup& other) {
      return !group.params().empty() && contains(other.params(), group.params().front());
    };
    const auto found = std::find_if(saved.begin(), saved.end(), has_first);
    if (found != saved.end()) group.set_options(found->options().clone());
  }
}

/// Every parameter of an optimizer is in one of these groups.
bool cover(const Groups& groups, const Optimizer& optimizer) {
  const std::vector<at::Tensor> own = all_parameters(optimizer);
  return std::all_of(own.begin(), own.end(), [&](const at::Tensor& parameter) {
    return std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return contains(group, parameter); });
  });
}

/// Whoever has changed in the module what is frozen is told that the checkpoint's run counts.
void tell_of_other_frozen(const Module& module, const std::set<std::string>& frozen) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    if (parameter.requires_grad() == frozen.contains(name)) names.push_back(name);
  }
  if (names.empty()) return;
  const std::size_t count = names.size();
  names.resize(std::min<std::size_t>(count, 10));
  rank_zero_info(format("As in the checkpoint's run, and other than the module was built, {} frozen or trained: {}{}.",
                        counted(count, "parameter") + (count == 1 ? " is" : " are"), join(names), count > 10 ? ", …" : ""));
}

}  // namespace

Value parameter_state(TrainerState& run) {
  const LoopPosition& position = run.resume.position;
  const auto names = names_of(run.module());
  const auto now = run.trained.now();
  const auto place = position.begins_anew() ? position.start.parameters : now;
  const auto agreed = position.begins_anew() ? position.start.agreed_parameters : run.trained.agreed();
  Value state(Value::Map{});
  state["optimizers"] = Value(Value::List{});
  for (const auto& optimizer : run.parts.optimizers) state["optimizers"].push_back(named_groups(*optimizer, names));
  // Until training begins, a run that resumes comes by itself to where it was.
  if (position.parameters_at_train_start == nullptr) return state;
  state["train_start"] = saved_moment(run, *position.parameters_at_train_start, names);
  if (position.place == Place::kTrainStart) return state;
  if (!position.is_between_epochs()) state["epoch_start"] = saved_moment(run, *position.parameters_at_epoch_start, names);
  if (agreed != place) state["agreed"] = saved_moment(run, *agreed, names);
  state["place"] = saved_moment(run, *place, names);
  const auto modes = position.begins_anew()                  ? position.start.modes
                     : run.modes_after_evaluation != nullptr ? run.modes_after_evaluation
                                                             : std::make_shared<const ModuleModes>(run.module());
  state["in_evaluation"] = Value(Value::List{});
  for (std::string& name : modes->in_evaluation()) state["in_evaluation"].push_back(std::move(name));
  return state;
}

ParameterResume::ParameterResume(TrainerState& run, const Checkpoint& checkpoint) {
  const Value* saved = checkpoint.manifest.find(kKey);
  for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
    Optimizer& optimizer = *run.parts.optimizers[index];
    const Groups own = ParameterSet::groups_of(optimizer);
    const std::vector<OptimizerParamGroup> own_groups = optimizer.param_groups();
    if (saved != nullptr) {
      saved_.push_back(saved_groups(saved->at("optimizers").as_list().at(index), run.module(), own, index, checkpoint));
      // One that has more than the checkpoint's says so when it is loaded.
      if (cover(saved_.back(), optimizer) || !saved->contains("train_start")) set_groups(optimizer, saved_.back(), {});
    }
    run.strategy().load_optimizer(optimizer, index, checkpoint);
    if (saved == nullptr) continue;
    // Until training begins, hooks that have run already set what hooks behind the saving one have set.
    if (!saved->contains("train_start")) restore_options(optimizer, own_groups);
    own_.push_back(own);
    known_.push_back(optimizer.param_groups());
    for (const OptimizerParamGroup& group : own_groups) known_.back().push_back(group);
  }
  if (saved == nullptr) return;
  set_aside_.resize(saved_.size());
  epoch_start_ = moment(*saved, "epoch_start");
  agreed_ = moment(*saved, "agreed");
  place_ = moment(*saved, "place");
  if (place_) tell_of_other_frozen(run.module(), place_->frozen);
  train_start_ = moment(*saved, "train_start");
  if (const Value* modes = saved->find("in_evaluation")) {
    in_evaluation_.emplace();
    for (const Value& name : modes->as_list()) in_evaluation_->insert(name.as_string());
  }
}

std::optional<ParameterResume::Moment> ParameterResume::moment(const Value& saved, const char* name) const {
  const Value* value = saved.find(name);
  if (value == nullptr) return std::nullopt;
  Moment moment;
  for (const Value& frozen : value->at("frozen").as_list()) moment.frozen.insert(frozen.as_string());
  for (std::size_t index = 0; index < saved_.size(); ++index) {
    std::vector<at::Tensor> all;
    for (const auto& group : saved_[index]) all.insert(all.end(), group.begin(), group.end());
    Groups& groups = moment.optimizers.emplace_back();
    for (const Value& numbers : value->at("optimizers").as_list().at(index).as_list()) {
      groups.emplace_back();
      for (const Value& number : numbers.as_list()) groups.back().push_back(all.at(static_cast<std::size_t>(number.as_int())));
    }
  }
  return moment;
}

void ParameterResume::restore(TrainerState& run, const std::optional<Moment>& moment) {
  if (!moment) return;
  for (const auto& [name, parameter] : distinct_parameters(run.module())) {
    const bool trained = !moment->frozen.contains(name);
    if (parameter.requires_grad() != trained) parameter.requires_grad_(trained);
  }
  for (std::size_t index = 0; index < moment->optimizers.size(); ++index) {
    Optimizer& optimizer = *run.parts.optimizers[index];
    set_groups(optimizer, moment->optimizers[index], known_[index]);
    restore_state(optimizer, index);
  }
}

void ParameterResume::restore_state(Optimizer& optimizer, std::size_t index) {
  const Groups groups = ParameterSet::groups_of(optimizer);
  for (const auto& saved : saved_[index]) {
    for (const at::Tensor& parameter : saved) {
      at::TensorImpl* const key = parameter.unsafeGetTensorImpl();
      const bool is_in_group =
          std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return contains(group, parameter); });
      const auto state = optimizer.state().find(key);
      const auto aside = set_aside_[index].find(key);
      if (is_in_group && aside != set_aside_[index].end()) {
        optimizer.state()[key] = std::move(aside->second);
        set_aside_[index].erase(aside);
      } else if (!is_in_group && state != optimizer.state().end()) {
        set_aside_[index][key] = std::move(state->second);
        optimizer.state().erase(state);
      }
    }
  }
}

void ParameterResume::restore_train_start(TrainerState& run) {
  restore(run, train_start_);
  for (std::size_t index = 0; !train_start_ && index < own_.size(); ++index) {
    set_groups(*run.parts.optimizers[index], own_[index], known_[index]);
  }
}
void ParameterResume::restore_epoch_start(TrainerState& run) { restore(run, epoch_start_); }
void ParameterResume::restore_agreed(TrainerState& run) { restore(run, agreed_); }
void ParameterResume::restore_place(TrainerState& run) {
  restore(run, place_);
  for (std::size_t index = 0; place_ && index < known_.size(); ++index) {
    restore_options(*run.parts.optimizers[index], known_[index]);
  }
  if (in_evaluation_) set_modes(run.module(), *in_evaluation_);
}

std::map<std::string, at::Tensor> gradients_of(const Module& module) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const at::Tensor own = gradient.detach().to(at::kCPU, parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    gradients[name] = own.is_sparse() ? own : own.contiguous();
  }
  return gradients;
}

void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor) {
  const at::NoGradGuard no_grad;
  const auto all = module.named_parameters();
  for (const auto& [name, gradient] : gradients) {
    if (all.find(name) == nullptr) {
      throw ConfigError("ckpt_path: the checkpoint has gradients of parameters that the module lacks.");
    }
  }
  for (auto& [name, parameter] : distinct_parameters(module)) {
    const auto saved = gradients.find(name);
    if (saved == gradients.end()) {
      parameter.mutable_grad().reset();
      continue;
    }
    if (saved->second.sizes() != parameter.sizes()) {
      std::ostringstream text;
      text << "ckpt_path: the gradient of " << name << " is of shape " << saved->second.sizes() << ", the parameter of "
           << parameter.sizes() << ".";
      throw ConfigError(text.str());
    }
    at::Tensor gradient = saved->second.to(parameter.device(), parameter.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    if (factor != 1.0) gradient.mul_(factor);
    parameter.mutable_grad() = gradient;
  }
}

namespace {

/// How many elements a packed gradient has where it is sparse.
constexpr std::int64_t kDense = -1;

void append_tensor(std::string& bytes, const at::Tensor& tensor) {
  const at::Tensor contiguous = tensor.contiguous();
  bytes.append(static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes());
}

constexpr const char* kNotThese = "The gradients that a rank sent for a checkpoint are not those of this module's parameters.";

at::Tensor read_tensor(ByteReader& reader, at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor tensor = at::empty(sizes, at::TensorOptions(type));
  const std::string_view bytes = reader.take(tensor.nbytes());
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

at::Tensor read_gradient(ByteReader& reader, const at::Tensor& parameter) {
  const auto elements = reader.number<std::int64_t>();
  if (elements == kDense) return read_tensor(reader, parameter.sizes(), parameter.scalar_type());
  // Embeddings have an index for each row.
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  if (sizes.empty() || elements < 0 || static_cast<std::uint64_t>(elements) > reader.left()) throw DesyncError(kNotThese);
  sizes[0] = elements;
  const at::Tensor indices = read_tensor(reader, {1, elements}, at::kLong);
  return at::sparse_coo_tensor(indices, read_tensor(reader, sizes, parameter.scalar_type()), parameter.sizes());
}

}  // namespace

std::string pack_gradients(const std::map<std::string, at::Tensor>& gradients) {
  std::string bytes;
  for (const auto& [name, gradient] : gradients) {
    append_text(bytes, name);
    append_number(bytes, gradient.is_sparse() ? gradient._nnz() : kDense);
    if (gradient.is_sparse()) append_tensor(bytes, gradient._indices());
    append_tensor(bytes, gradient.is_sparse() ? gradient._values() : gradient);
  }
  return bytes;
}

std::map<std::string, at::Tensor> unpack_gradients(const Module& module, const std::string& bytes) {
  const auto parameters = module.named_parameters();
  std::map<std::string, at::Tensor> gradients;
  for (ByteReader reader(bytes, kNotThese); reader.left() > 0;) {
    const std::string name = reader.text();
    const at::Tensor* parameter = parameters.find(name);
    if (parameter == nullptr) throw DesyncError(kNotThese);
    gradients.emplace(name, read_gradient(reader, *parameter));
  }
  return gradients;
}

}  // namespace levin
