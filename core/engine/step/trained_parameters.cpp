#include "levin/core/engine/step/trained_parameters.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "levin/core/engine/diagnostics/parameter_warnings.h"
#include "levin/core/engine/parts/rank_agreement.h"
#include "levin/core/engine/step/precision.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

/// A module's own parameters where they stand: named_parameters() copies all names.
struct OwnParameters : torch::nn::Module {
  static const auto& of(const torch::nn::Module& module) { return module.*(&OwnParameters::parameters_); }
};

/// Calls `visit` for each parameter, parents first, until it gives false. True: it never did.
template <class Visit>
bool each_parameter(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& item : OwnParameters::of(module)) {
    if (item.value().defined() && !visit(item.value())) return false;
  }
  for (const auto& child : module.children()) {
    if (!each_parameter(*child, visit)) return false;
  }
  return true;
}

template <class ToggledOff>
void require_gradients(const ToggledOff& toggled_off, bool required) {
  for (const auto& [key, off] : toggled_off) off.parameter.requires_grad_(required);
}

}  // namespace

ParameterSet::Groups ParameterSet::groups_of(const torch::optim::Optimizer& optimizer) {
  Groups groups;
  for (const auto& group : optimizer.param_groups()) groups.push_back(group.params());
  return groups;
}

bool ParameterSet::are_of(const torch::optim::Optimizer& optimizer, const Groups& groups) {
  const auto& own = optimizer.param_groups();
  const auto same_tensor = [](const at::Tensor& one, const at::Tensor& other) { return one.is_same(other); };
  return std::ranges::equal(own, groups, [&](const auto& group, const auto& parameters) {
    return std::ranges::equal(group.params(), parameters, same_tensor);
  });
}

bool TrainedParameters::is_as(const ParameterSet& set) const {
  std::size_t index = 0;
  const auto is_next = [&](const at::Tensor& parameter) {
    const std::size_t at = index++;
    return at < set.parameters.size() && parameter.is_same(set.parameters[at]) && is_trained(parameter) == set.trained[at];
  };
  if (!each_parameter(*parts_.module, is_next) || index != set.parameters.size()) return false;
  return std::ranges::equal(parts_.optimizers, set.optimizers,
                            [](const auto& optimizer, const auto& groups) { return ParameterSet::are_of(*optimizer, groups); });
}

ParameterSet TrainedParameters::taken() const {
  ParameterSet set;
  each_parameter(*parts_.module, [&](const at::Tensor& parameter) {
    set.parameters.push_back(parameter);
    set.trained.push_back(is_trained(parameter));
    return true;
  });
  for (const auto& optimizer : parts_.optimizers) set.optimizers.push_back(ParameterSet::groups_of(*optimizer));
  return set;
}

std::shared_ptr<const ParameterSet> TrainedParameters::now() {
  if (!latest_ || !is_as(*latest_)) latest_ = std::make_shared<const ParameterSet>(taken());
  return latest_;
}

void TrainedParameters::remember_optimizers() {
  ParameterSet set = *agreed_;
  set.optimizers = taken().optimizers;
  latest_ = agreed_ = std::make_shared<const ParameterSet>(std::move(set));
}

void TrainedParameters::agree(bool after_reduction) {
  Module& module = *parts_.module;
  Strategy& strategy = *setup_.strategy;
  PrecisionPolicy(setup_.options.precision, strategy.accelerator(), strategy.device(), setup_.options.channels_last)
      .convert_module(module);
  if (!strategy.device().is_cpu()) module.to(strategy.device());
  if (setup_.options.sync_batchnorm) strategy.synchronize_batch_norms(module);
  {
    // The reduction is set up for all that is trained, whichever optimizer's turn it is.
    require_gradients(toggled_off_, true);
    strategy.parameters_changed(module, after_reduction);
    require_gradients(toggled_off_, false);
  }
  check_same_changes_of_optimizers(setup_, parts_);
  warn_of_idle_parameters(parts_);
  agreed_ = now();
}

void TrainedParameters::toggle(std::size_t optimizer) {
  std::unordered_set<const at::TensorImpl*> stays;
  for (const at::Tensor& parameter : all_parameters(*parts_.optimizers.at(optimizer)))
    stays.insert(parameter.unsafeGetTensorImpl());
  for (const auto& other : parts_.optimizers) {
    for (const at::Tensor& parameter : all_parameters(*other)) {
      if (!parameter.requires_grad() || stays.contains(parameter.unsafeGetTensorImpl())) continue;
      toggled_off_.emplace(parameter.unsafeGetTensorImpl(), ToggledOff{parameter, parameter.grad().defined()});
    }
  }
  toggled_ = optimizer;
  require_gradients(toggled_off_, false);
}

void TrainedParameters::untoggle() {
  require_gradients(toggled_off_, true);
  for (auto& [key, off] : toggled_off_) {
    // Where several ranks reduce gradients, it took part with zeros.
    if (!off.had_gradient) off.parameter.mutable_grad().reset();
  }
  toggled_off_.clear();
  toggled_.reset();
}

void ModuleModes::add(const std::string& name, torch::nn::Module& module) {
  modes_.push_back({name, &module, module.is_training()});
  for (const auto& child : module.named_children()) {
    add(name.empty() ? child.key() : name + "." + child.key(), *child.value());
  }
}

bool ModuleModes::are_of(const torch::nn::Module& module, std::size_t& index) const {
  if (index == modes_.size()) return false;
  const Mode& mode = modes_[index++];
  if (mode.module != &module || mode.training != module.is_training()) return false;
  for (const auto& child : module.children()) {
    if (!are_of(*child, index)) return false;
  }
  return true;
}

std::shared_ptr<const ModuleModes> ModuleModes::now(torch::nn::Module& module, std::shared_ptr<const ModuleModes> before) {
  std::size_t index = 0;
  if (before && before->are_of(module, index) && index == before->modes_.size()) return before;
  return std::make_shared<const ModuleModes>(module);
}

void ModuleModes::restore() const {
  // train() changes the whole subtree; the entries of the children come later and set them right again.
  for (const Mode& mode : modes_) mode.module->train(mode.training);
}

std::vector<std::string> ModuleModes::in_evaluation() const {
  std::vector<std::string> names;
  for (const Mode& mode : modes_) {
    if (!mode.training) names.push_back(mode.name);
  }
  return names;
}

void set_modes(torch::nn::Module& module, const std::set<std::string>& in_evaluation) {
  module.train(!in_evaluation.contains(""));
  for (const auto& item : module.named_modules("", /*include_self=*/false))
    item.value()->train(!in_evaluation.contains(item.key()));
}

}  // namespace levin
